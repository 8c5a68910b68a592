// mod.json: package/metadata_check.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../third_party/nlohmann/json.hpp"
#include "../tvmbuild.hpp"
#include "archive.h"

namespace tvmbuild::detail {

constexpr int MAX_DEPTH = 64;
constexpr uint64_t MAX_TENSOR_BYTES = uint64_t{1} << 40;

inline nlohmann::json read_json(const std::string &text) {
  auto check_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json &) {
    if (depth > MAX_DEPTH) damaged("mod.json is not tvmbuild's JSON: it is nested too deep");
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(text, check_depth, false);
  if (json.is_discarded()) damaged("mod.json is not JSON");
  return json;
}

// A part of mod.json with its place, for messages.
class Part {
 public:
  explicit Part(const nlohmann::json &json, std::string where = "") : json_(json), where_(std::move(where)) {}

  Part operator[](const std::string &key) const {
    if (!has(key)) damaged("mod.json is damaged: " + place(key) + " is missing");
    return Part(json_.at(key), place(key));
  }
  bool has(const std::string &key) const { return expect(json_.is_object(), "map").contains(key); }
  bool is_null() const { return json_.is_null(); }
  bool is_number() const { return json_.is_number(); }
  bool is_true() const { return json_.is_boolean() && json_.get<bool>(); }
  bool is_text() const { return json_.is_string(); }
  bool is_list() const { return json_.is_array(); }
  std::string text() const { return expect(is_text(), "text").get<std::string>(); }
  double number() const { return expect(is_number(), "number").get<double>(); }
  bool truth() const { return expect(json_.is_boolean(), "truth value").get<bool>(); }
  uint64_t natural() const {
    auto value = expect(json_.is_number_unsigned(), "natural number").get<uint64_t>();
    expect(value <= MAX_TENSOR_BYTES, "sensible number");
    return value;
  }
  std::vector<Part> list() const {
    std::vector<Part> parts;
    for (const nlohmann::json &item : expect(json_.is_array(), "list"))
      parts.emplace_back(item, where_ + "[" + std::to_string(parts.size()) + "]");
    return parts;
  }
  std::set<std::string> keys() const {
    std::set<std::string> keys;
    for (const auto &item : expect(json_.is_object(), "map").items()) keys.insert(item.key());
    return keys;
  }
  const nlohmann::json &expect(bool true_of_it, const char *wanted) const {
    if (!true_of_it) {
      const char *article = std::string("aeiou").find(*wanted) == std::string::npos ? " is not a " : " is not an ";
      damaged("mod.json is damaged: " + (where_.empty() ? "all of it" : where_) + article + wanted);
    }
    return json_;
  }

 private:
  std::string place(const std::string &key) const { return where_.empty() ? key : where_ + "." + key; }
  const nlohmann::json &json_;
  std::string where_;
};

// The requirements of the code on a CPU, and on a card: the card's architecture, if the kernels are for only one.
struct Attributes {
  std::string mcpu, mtriple, arch, driver;
  bool has_ptx = false;
  std::vector<std::string> features;              // `+name` or `-name`
  std::optional<std::vector<std::string>> flags;  // as /proc/cpuinfo spells them; older packages state none
};

inline const std::map<std::string, size_t> &dtype_sizes() {
  static const std::map<std::string, size_t> sizes = {
      {"bool", 1},  {"int8", 1},   {"uint8", 1},   {"int16", 2}, {"uint16", 2}, {"float16", 2}, {"bfloat16", 2},
      {"int32", 4}, {"uint32", 4}, {"float32", 4}, {"int64", 8}, {"uint64", 8}, {"float64", 8}};
  return sizes;
}

// The axes of a tensor whose length depends on data; older packages have none.
// Return the number of lengths that the code returns after the outputs, or 0 if all shapes are always the same.
inline size_t count_lengths(const Info &info) {
  size_t count = 0;
  for (const TensorInfo &each : info.outputs)
    for (const Count &axis : each.counts) count = std::max(count, axis.place + 1);
  return count;
}

inline std::vector<Count> read_counts(const Part &tensor, size_t rank) {
  constexpr uint64_t MAX_LENGTHS = 1 << 16;
  std::vector<Count> counts;
  if (!tensor.has("counts") || tensor["counts"].is_null()) return counts;
  std::set<uint64_t> axes;
  for (const Part &each : tensor["counts"].list()) {
    uint64_t axis = each["axis"].natural(), place = each["place"].natural();
    each["axis"].expect(axis < rank && axes.insert(axis).second, "axis of its own in the shape");
    each["place"].expect(place < MAX_LENGTHS, "place that is small enough");
    counts.push_back({static_cast<size_t>(axis), static_cast<size_t>(place)});
  }
  return counts;
}

inline std::vector<TensorInfo> read_tensors(const Part &part) {
  std::vector<TensorInfo> tensors;
  std::set<std::string> names;
  for (const Part &each : part.list()) {
    TensorInfo info{each["name"].text(), {}, each["dtype"].text(), {}};
    each["name"].expect(names.insert(info.name).second, "name of its own");
    each["dtype"].expect(dtype_sizes().count(info.dtype), "type of numbers that is known");
    double bytes = static_cast<double>(dtype_sizes().at(info.dtype));
    for (const Part &size : each["shape"].list()) {
      info.shape.push_back(static_cast<int64_t>(size.natural()));
      bytes *= static_cast<double>(info.shape.back());
    }
    each["shape"].expect(bytes <= static_cast<double>(MAX_TENSOR_BYTES), "shape that fits a memory");
    info.counts = read_counts(each, info.shape.size());
    tensors.push_back(std::move(info));
  }
  return tensors;
}

inline std::string one_of(const Part &part, const std::set<std::string> &choices) {
  part.expect(choices.count(part.text()), "choice that is known");
  return part.text();
}

// Return the fault of the rules. Empty: none.
inline std::string find_fault(const Preprocess &rules) {
  size_t channels = rules.color == "gray" ? 1 : 3;
  for (const std::vector<double> *numbers : {&rules.mean, &rules.std}) {
    if (!numbers->empty() && numbers->size() != channels)
      return "mean and std need one number a channel, " + std::to_string(channels) + " of them";
  }
  return std::count(rules.std.begin(), rules.std.end(), 0.0) ? "std has a zero" : "";
}

inline Preprocess read_preprocess(const Part &part) {
  Preprocess rules;
  for (const std::string &key : part.keys())
    part[key].expect(
        std::set<std::string>{"input", "resize", "color", "layout", "scale", "mean", "std", "align", "fill", "crop_pct"}
            .count(key),
        "rule that is known");
  if (part.has("input") && !part["input"].is_null()) rules.input = part["input"].text();
  if (part.has("resize")) rules.resize = one_of(part["resize"], {"stretch", "letterbox", "crop"});
  if (part.has("color")) rules.color = one_of(part["color"], {"rgb", "bgr", "gray"});
  if (part.has("layout")) rules.layout = one_of(part["layout"], {"NCHW", "NHWC"});
  if (part.has("scale")) rules.scale = part["scale"].number();
  if (part.has("align")) rules.align = one_of(part["align"], {"center", "top-left"});
  if (part.has("fill")) {
    part["fill"].expect(part["fill"].natural() <= 255, "byte");
    rules.fill = static_cast<uint8_t>(part["fill"].natural());
  }
  if (part.has("crop_pct")) {
    rules.crop_pct = part["crop_pct"].number();
    part["crop_pct"].expect(rules.crop_pct >= 0.1 && rules.crop_pct <= 1, "share of a side");
  }
  for (const char *key : {"mean", "std"}) {
    if (!part.has(key)) continue;
    for (const Part &each : part[key].list()) (*key == 'm' ? rules.mean : rules.std).push_back(each.number());
  }
  std::string fault = find_fault(rules);
  if (!fault.empty()) damaged("mod.json is damaged: preprocess: " + fault);
  return rules;
}

// The bytes of an encoding: base/frame_specs.py.
struct Encoding {
  int channels;         // bytes of a pixel in a row; of the plane of brightness where colours have planes of their own
  bool pairs;           // whether two pixels of a row share a colour
  bool planes;          // whether two rows share their colours too, in planes below the brightness
  bool mosaic = false;  // whether two by two pixels share their colours
};

inline const std::map<std::string, Encoding> &encodings() {
  static const std::map<std::string, Encoding> all = {{"rgb8", {3, false, false}},
                                                      {"bgr8", {3, false, false}},
                                                      {"rgba8", {4, false, false}},
                                                      {"bgra8", {4, false, false}},
                                                      {"mono8", {1, false, false}},
                                                      {"yuyv", {2, true, false}},
                                                      {"uyvy", {2, true, false}},
                                                      {"nv12", {1, true, true}},
                                                      {"nv21", {1, true, true}},
                                                      {"i420", {1, true, true}},
                                                      {"bayer_rggb8", {1, true, false, true}},
                                                      {"bayer_bggr8", {1, true, false, true}},
                                                      {"bayer_gbrg8", {1, true, false, true}},
                                                      {"bayer_grbg8", {1, true, false, true}}};
  return all;
}

inline void expect_keys(const Part &part, const std::set<std::string> &keys) {
  for (const std::string &key : part.keys()) part[key].expect(keys.count(key), "key that is known");
  for (const std::string &key : keys) static_cast<void>(part[key]);  // each is there
}

inline Crop read_crop(const Part &part, const Frame &frame) {
  expect_keys(part, {"top", "left", "height", "width"});
  uint64_t top = part["top"].natural(), left = part["left"].natural();
  uint64_t height = part["height"].natural(), width = part["width"].natural();
  uint64_t rows = static_cast<uint64_t>(frame.height), columns = static_cast<uint64_t>(frame.width);
  bool inside = height >= 1 && width >= 1 && height <= rows && width <= columns && top <= rows - height &&
                left <= columns - width;
  part.expect(inside, "part of the frame");
  return {static_cast<int>(top), static_cast<int>(left), static_cast<int>(height), static_cast<int>(width)};
}

inline Frame read_frame(const Part &part) {
  constexpr uint64_t MAX_SIDE = 1 << 14, MAX_STRIDE = 8 * MAX_SIDE;
  std::set<std::string> keys = {"height", "width", "encoding", "interpolation"};
  for (const char *key : {"stride", "crop"}) {
    if (part.has(key)) keys.insert(key);
  }
  expect_keys(part, keys);
  for (const char *side : {"height", "width"})
    part[side].expect(part[side].natural() >= 1 && part[side].natural() <= MAX_SIDE, "side of a frame");
  Frame frame;
  frame.height = static_cast<int>(part["height"].natural());
  frame.width = static_cast<int>(part["width"].natural());
  frame.encoding = part["encoding"].text();
  frame.interpolation = one_of(part["interpolation"], {"antialias", "bilinear", "area", "nearest"});
  part["encoding"].expect(encodings().count(frame.encoding), "choice that is known");
  const Encoding &encoding = encodings().at(frame.encoding);
  part["width"].expect(!encoding.pairs || frame.width % 2 == 0, "even number, although pixels share their colours");
  bool shared = encoding.planes || encoding.mosaic;
  part["height"].expect(!shared || frame.height % 2 == 0, "even number, although rows share their colours");
  if (encoding.mosaic) part.expect(frame.height >= 4 && frame.width >= 4, "frame of four rows and columns");
  if (part.has("stride")) {
    uint64_t least = static_cast<uint64_t>(frame.width) * encoding.channels, stride = part["stride"].natural();
    part["stride"].expect(stride >= least && stride <= MAX_STRIDE, "distance of two rows");
    part["stride"].expect(frame.encoding != "i420" || stride % 2 == 0, "even number, although colours have half rows");
    frame.stride = static_cast<int>(stride);
  }
  if (part.has("crop")) frame.crop = read_crop(part["crop"], frame);
  return frame;
}

// The keys of each kind of result: base/postprocess_specs.py.
inline const std::map<std::string, std::set<std::string>> &result_keys() {
  static const std::map<std::string, std::set<std::string>> all = {
      {"boxes", {"outputs", "form", "score", "overlap", "most", "agnostic", "anchors"}},
      {"masks", {"outputs", "form", "score", "overlap", "most", "agnostic", "anchors"}},
      {"keypoints", {"outputs", "form", "score", "overlap", "most", "agnostic", "anchors", "points", "values"}},
      {"classes", {"outputs", "activation", "score", "most"}},
      {"segmentation", {"outputs", "interpolation", "activation", "score"}},
      {"text", {"outputs", "activation", "blank"}},
      {"vector", {"outputs", "normalise"}},
      {"heatmaps", {"outputs"}},
      {"raw", {"outputs"}}};
  return all;
}

inline int read_between(const Part &part, uint64_t least, uint64_t most, const char *wanted) {
  part.expect(part.natural() >= least && part.natural() <= most, wanted);
  return static_cast<int>(part.natural());
}

// The forms of boxes are not listed here, because only the package's code needs them.
inline Postprocess read_result(const std::string &kind, const Part &fields) {
  constexpr uint64_t MAX_RESULTS = 1000, MAX_MASKS = 255;
  Postprocess result;
  result.kind = kind;
  std::set<std::string> keys = result_keys().at(kind);
  bool named = kind != "text" && kind != "vector" && kind != "raw";  // its classes or points may have names
  if (named && fields.has("labels")) {
    keys.insert("labels");
    for (const Part &label : fields["labels"].list()) result.labels.push_back(label.text());
  }
  for (const char *key : {"strides", "variances"}) {
    if (!keys.count("form") || !fields.has(key)) continue;
    keys.insert(key);
    for (const Part &number : fields[key].list()) static_cast<void>(number.number());
  }
  if ((kind == "masks" || kind == "segmentation") && fields.has("resolution")) {
    keys.insert("resolution");
    result.in_input = one_of(fields["resolution"], {"frame", "input"}) == "input";
  }
  expect_keys(fields, keys);
  fields["outputs"].expect(kind != "raw" || !fields["outputs"].list().empty(), "list of outputs");
  for (const Part &output : fields["outputs"].list()) result.outputs.push_back(output.text());
  if (fields.has("anchors")) {
    for (const Part &grid : fields["anchors"].list()) {
      for (const Part &side : grid.list()) static_cast<void>(side.number());
    }
  }
  if (fields.has("form")) static_cast<void>(fields["form"].text());
  for (const char *key : {"agnostic", "normalise"}) {
    if (fields.has(key)) static_cast<void>(fields[key].truth());
  }
  if (fields.has("activation")) one_of(fields["activation"], {"none", "sigmoid", "softmax"});
  if (fields.has("interpolation")) one_of(fields["interpolation"], {"bilinear", "nearest"});
  if (fields.has("blank")) result.blank = one_of(fields["blank"], {"first", "last"});
  if (fields.has("score")) result.score = fields["score"].number();
  if (fields.has("overlap")) result.overlap = fields["overlap"].number();
  if (fields.has("most"))
    result.most =
        read_between(fields["most"], 1, result.kind == "masks" ? MAX_MASKS : MAX_RESULTS, "number of results");
  if (fields.has("points")) result.points = read_between(fields["points"], 1, MAX_RESULTS, "number of points");
  if (fields.has("values")) result.values = read_between(fields["values"], 2, 3, "number of values of a point");
  return result;
}

// Read the results in the order in which the package's functions return them: KINDS in base/postprocess_specs.py.
inline std::vector<Postprocess> read_postprocess(const Part &part) {
  const std::set<std::string> kinds = part.keys(), repeated = {"classes", "segmentation", "heatmaps"};
  std::vector<Postprocess> results;
  size_t known = 0;
  for (const char *kind :
       {"boxes", "masks", "keypoints", "classes", "segmentation", "text", "vector", "heatmaps", "raw"}) {
    if (!kinds.count(kind)) continue;
    known++;
    Part found = part[kind];
    if (!found.is_list()) {
      results.push_back(read_result(kind, found));
      continue;
    }
    found.expect(repeated.count(kind) != 0 && !found.list().empty(), "result");
    for (const Part &each : found.list()) results.push_back(read_result(kind, each));
  }
  part.expect(known != 0 && known == kinds.size(), "map of kinds of results that are known");
  part.expect(kinds.count("boxes") + kinds.count("masks") + kinds.count("keypoints") < 2, "map with one kind of boxes");
  return results;
}

// Read a list, or one text with commas.
inline std::vector<std::string> read_features(const Part &part) {
  std::vector<std::string> features;
  if (part.is_text()) {
    std::istringstream items(part.text());
    for (std::string item; std::getline(items, item, ',');) features.push_back(item);
  } else {
    for (const Part &item : part.list()) features.push_back(item.text());
  }
  return features;
}

inline Info read_metadata(const Part &part, Attributes &needs) {
  if (part["format"].number() != 1)
    damaged("mod.json has another format than 1: build the package again, or this program");
  Info info;
  info.model = part["model"].text();
  info.entry = part["entry"].text();
  Part target = part["target"];
  info.target = target["name"].text();
  info.kind = target["kind"].text();
  Part attributes = target[info.kind == "llvm" ? "attributes" : "host"];
  if (attributes.has("num-cores") && attributes["num-cores"].is_number())
    info.cores = static_cast<int>(std::clamp<uint64_t>(attributes["num-cores"].natural(), 1, 1024));
  if (attributes.has("mcpu")) needs.mcpu = attributes["mcpu"].text();
  if (attributes.has("mtriple")) needs.mtriple = attributes["mtriple"].text();
  if (attributes.has("mattr")) needs.features = read_features(attributes["mattr"]);
  if (target.has("flags") && !target["flags"].is_null()) {
    needs.flags.emplace();
    for (const Part &flag : target["flags"].list()) needs.flags->push_back(flag.text());
  }
  if (info.kind == "cuda") {
    Part card = target["attributes"];
    if (card.has("arch")) needs.arch = card["arch"].text();
    if (card.has("driver")) needs.driver = card["driver"].text();  // older packages name none
    needs.has_ptx = card.has("ptx") && card["ptx"].is_true();
  }
  info.inputs = read_tensors(part["inputs"]);
  info.outputs = read_tensors(part["outputs"]);
  info.lifted = one_of(part["params"], {"lifted", "embedded"}) == "lifted";
  info.tasks = static_cast<int>(part["coverage"]["tasks"].natural());
  info.covered = static_cast<int>(part["coverage"]["covered"].natural());
  if (part.has("workspace") && !part["workspace"].is_null()) info.workspace = part["workspace"].natural();
  if (!part["labels"].is_null()) {
    for (const Part &label : part["labels"].list()) info.labels.push_back(label.text());
  }
  if (!part["preprocess"].is_null()) info.preprocess = read_preprocess(part["preprocess"]);
  if (part.has("frames") && !part["frames"].is_null()) {  // older packages have none
    for (const Part &frame : part["frames"].list()) info.frames.push_back(read_frame(frame));
    part["preprocess"].expect(info.preprocess || info.frames.empty(), "map, although the package takes frames");
  }
  if (part.has("postprocess") && !part["postprocess"].is_null())
    info.postprocess = read_postprocess(part["postprocess"]);
  return info;
}

}  // namespace tvmbuild::detail
