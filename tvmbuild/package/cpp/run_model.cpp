// Classify a picture and print the classes, or run a camera's frame and print what is in it:
// run_model PACKAGE.tar PICTURE [LABELS] [options], run_model PACKAGE.tar --frame FILE.raw [options]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "program.h"
#include "read_npy.h"
#include "read_picture.h"
#include "tvmbuild.hpp"

namespace {

const char *const USAGE =
    "usage: run_model PACKAGE.tar PICTURE [LABELS] [--normalize NUMBERS] [--top N] [--input NAME=FILE] [--threads N]\n"
    "                 [--size H=320,W=640]\n"
    "       run_model PACKAGE.tar --frame FILE [--encoding NAME] [--width N] [--score X] [--overlap X]\n"
    "                 [--input NAME=FILE] [--threads N] [--size H=320,W=640]\n"
    "\n"
    "LABELS      a text file, one name a line; default: those of the package\n"
    "--normalize imagenet, none, or MEAN,MEAN,MEAN:STD,STD,STD instead of the package's mean and std\n"
    "--top N     how many classes to print (default: 5)\n"
    "--input     an input beside the picture, an .npy; once for each\n"
    "--threads N default: the cores that the package was tuned for, as far as there are so many\n"
    "--size      the network's size in a package of several sizes (default: the largest)\n"
    "--frame     the bytes of a camera's frame; prints a line for each result:\n"
    "            boxes `score index label x y width height`, masks also the number of pixels; keypoints below their\n"
    "            box, and heatmaps, `score index label x y`; classes `score index label`; segmentation `pixels index\n"
    "            label`; text `score text`; a vector's numbers\n"
    "--encoding, --width say which frame it is, if several of the package's have as many bytes\n"
    "--score, --overlap  replace the thresholds of the package\n";

double read_number(const std::string &option, const std::string &digits) {
  char *end = nullptr;
  double number = std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end != '\0') throw tvmbuild::Error(option + ": " + digits + " is not a number");
  return number;
}

std::vector<double> read_numbers(const std::string &text) {
  std::vector<double> numbers;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) numbers.push_back(read_number("--normalize", item));
  return numbers;
}

void normalize(tvmbuild::Preprocess &rules, const std::string &how) {
  if (how == "none") {
    rules.mean = rules.std = {};
  } else if (how == "imagenet") {
    rules.mean = {0.485, 0.456, 0.406};
    rules.std = {0.229, 0.224, 0.225};
    if (rules.color == "bgr") {
      std::reverse(rules.mean.begin(), rules.mean.end());
      std::reverse(rules.std.begin(), rules.std.end());
    }
  } else {
    size_t colon = how.find(':');
    if (colon == std::string::npos)
      throw tvmbuild::Error("--normalize is imagenet, none or MEANS:DEVIATIONS, not " + how);
    rules.mean = read_numbers(how.substr(0, colon));
    rules.std = read_numbers(how.substr(colon + 1));
  }
}

std::vector<std::string> read_labels(const std::string &path) {
  std::ifstream stream(path);
  if (!stream) throw tvmbuild::Error(path + " cannot be read");
  std::vector<std::string> labels;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(line);
  }
  return labels;
}

std::string join(const std::vector<double> &numbers) {
  std::string text;
  for (double number : numbers) {
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%s%g", text.empty() ? "" : ", ", number);
    text += digits;
  }
  return text.empty() ? "none" : text;
}

std::string show(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

void print_form(const tvmbuild::TensorInfo &output) {
  std::printf("output: %s %s %s\n", output.name.c_str(), output.dtype.c_str(), show(output.shape).c_str());
}

// Print the outputs and the likeliest classes of each that has one score for each class. Return whether any has.
bool print_outputs(const std::vector<tvmbuild::Tensor> &outputs, const std::vector<std::string> &labels, int top) {
  bool ranked = false;
  for (const tvmbuild::Tensor &output : outputs) {
    const std::vector<int64_t> &shape = output.info().shape;
    print_form(output.info());
    if (std::count_if(shape.begin(), shape.end(), [](int64_t n) { return n != 1; }) != 1) continue;
    ranked = true;
    for (const tvmbuild::RankedClass &each : tvmbuild::rank_classes(output, labels, static_cast<size_t>(top)))
      std::printf("%6zu  %.6f  %s\n", each.index, each.probability, each.label.empty() ? "-" : each.label.c_str());
  }
  return ranked;
}

// Return the inputs beside the picture, in the order of the package, from the files that --input names.
std::vector<tvmbuild::Tensor> read_others(const tvmbuild::Arguments &arguments, const tvmbuild::Info &info,
                                          const tvmbuild::Preprocess &rules) {
  std::map<std::string, std::string> files;
  auto given = arguments.repeated.find("--input");
  for (const std::string &each : given == arguments.repeated.end() ? std::vector<std::string>() : given->second) {
    size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == each.size())
      throw tvmbuild::UsageError("--input is NAME=FILE.npy, not " + each);
    if (!files.emplace(each.substr(0, equals), each.substr(equals + 1)).second)
      throw tvmbuild::Error("--input " + each.substr(0, equals) + " is given twice");
  }
  size_t picture = tvmbuild::picture_input(info, rules);
  std::vector<tvmbuild::Tensor> others;
  std::string missing, known;
  for (size_t i = 0; i < info.inputs.size(); i++) {
    const tvmbuild::TensorInfo &wanted = info.inputs[i];
    if (i == picture) continue;
    known += (known.empty() ? "" : ", ") + wanted.name;
    auto found = files.find(wanted.name);
    if (found == files.end()) {
      missing += (missing.empty() ? "" : ", ") + wanted.name;
      continue;
    }
    others.push_back(tvmbuild::read_npy(found->second, wanted.name));
    const tvmbuild::TensorInfo &got = others.back().info();
    if (got.shape != wanted.shape || got.dtype != wanted.dtype)
      throw tvmbuild::Error("the input " + wanted.name + " of " + info.model + " is " + wanted.dtype + " " +
                            show(wanted.shape) + ", got " + got.dtype + " " + show(got.shape));
    files.erase(found);
  }
  if (!files.empty())
    throw tvmbuild::Error(info.model + " has no input " + files.begin()->first + " beside the picture; " +
                          (known.empty() ? "it has none" : "its inputs are " + known));
  if (!missing.empty()) throw tvmbuild::Error(info.model + " needs --input for " + missing + " beside the picture");
  return others;
}

std::vector<uint8_t> read_bytes(const std::string &path) {
  std::error_code reason;  // first, because opening a pipe would wait for a writer
  uintmax_t size = std::filesystem::file_size(path, reason);
  if (reason || size > uintmax_t{1} << 30)
    throw tvmbuild::Error(path + (reason ? " cannot be read" : " is larger than any frame"));
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
    throw tvmbuild::Error(path + " cannot be read");
  return bytes;
}

std::string name_of(std::string_view label) { return label.empty() ? "-" : std::string(label); }

size_t count_pixels(const tvmbuild::Map &map, size_t value) {
  const uint8_t *end = map.pixels + static_cast<size_t>(map.height) * static_cast<size_t>(map.width);
  return static_cast<size_t>(std::count(map.pixels, end, static_cast<uint8_t>(value)));
}

void print_point(const tvmbuild::Point &point) {
  std::printf("%.9g %d %s %.9g %.9g\n", point.score, point.index, name_of(point.label).c_str(), point.x, point.y);
}

void print_boxes(const tvmbuild::Results &results) {
  size_t number = 0;
  for (const tvmbuild::Box &each : results.boxes) {
    std::printf("%.9g %d %s %.9g %.9g %.9g %.9g", each.score, each.index, name_of(each.label).c_str(), each.x, each.y,
                each.width, each.height);
    number++;
    if (results.masks.pixels != nullptr) std::printf(" %zu", count_pixels(results.masks, number));
    std::printf("\n");
    for (const tvmbuild::Point &point : each.points) print_point(point);
  }
}

void print_map(const tvmbuild::Map &map, const std::vector<std::string> &labels) {
  for (size_t index = 0; index <= UINT8_MAX; index++) {
    size_t pixels = count_pixels(map, index);
    std::string_view label = index < labels.size() ? std::string_view(labels[index]) : std::string_view();
    if (pixels != 0) std::printf("%zu %zu %s\n", pixels, index, name_of(label).c_str());
  }
}

// Print the results of the package's kinds. Nine digits tell every float32 from all others.
void print_results(const tvmbuild::Results &results, const tvmbuild::Info &info) {
  print_boxes(results);
  for (const tvmbuild::Class &each : results.classes)
    std::printf("%.9g %d %s\n", each.score, each.index, name_of(each.label).c_str());
  size_t maps = 0;
  for (const tvmbuild::Postprocess &each : info.postprocess) {
    if (each.kind == "segmentation")
      print_map(results.segmentations[maps++], each.labels.empty() ? info.labels : each.labels);
    if (each.kind == "text") std::printf("%.9g %s\n", results.text.score, std::string(results.text.text).c_str());
  }
  for (const float &each : results.vector) std::printf("%.9g%s", each, &each + 1 < results.vector.end() ? " " : "\n");
  for (const tvmbuild::Point &each : results.points) print_point(each);
  if (info.postprocess.empty()) return;
  for (const tvmbuild::Tensor &each : results.outputs) print_form(each.info());
}

tvmbuild::Session &choose(tvmbuild::Session &whole, const tvmbuild::Arguments &arguments) {
  return arguments.options.count("--size") ? whole.at(arguments.size("--size")) : whole;
}

void run_frame(const tvmbuild::Arguments &arguments) {
  tvmbuild::FrameOptions options;
  options.encoding = arguments.text("--encoding");
  options.width = arguments.number("--width", 0);
  if (arguments.options.count("--score")) options.score = read_number("--score", arguments.text("--score"));
  if (arguments.options.count("--overlap")) options.overlap = read_number("--overlap", arguments.text("--overlap"));
  tvmbuild::Session whole(arguments.plain[0], arguments.number("--threads", 0));
  tvmbuild::Session &session = choose(whole, arguments);
  if (session.info().preprocess) options.inputs = read_others(arguments, session.info(), *session.info().preprocess);
  std::vector<uint8_t> bytes = read_bytes(arguments.text("--frame"));
  const tvmbuild::Results &results = session.run_frame(bytes.data(), bytes.size(), options);
  print_results(results, session.info());
  if (session.info().postprocess.empty())
    print_outputs(results.outputs, session.info().labels, arguments.number("--top", 5));
}

void run(const tvmbuild::Arguments &arguments) {
  bool framed = arguments.options.count("--frame") != 0;
  for (const char *option : {"--encoding", "--width", "--score", "--overlap"}) {
    if (!framed && arguments.options.count(option)) throw tvmbuild::UsageError(std::string(option) + " needs --frame");
  }
  if (framed && arguments.options.count("--normalize"))
    throw tvmbuild::UsageError("a frame is normalized by the package: --normalize is for pictures");
  if (framed != (arguments.plain.size() == 1)) throw tvmbuild::UsageError("give either a picture or --frame");
  if (framed) {
    run_frame(arguments);
    return;
  }
  int top = arguments.number("--top", 5);
  std::string how = arguments.text("--normalize");
  tvmbuild::Session whole(arguments.plain[0], arguments.number("--threads", 0));
  tvmbuild::Session &session = choose(whole, arguments);
  const tvmbuild::Info &info = session.info();
  if (!info.preprocess) throw tvmbuild::Error(info.model + " does not say how a picture becomes its input");
  tvmbuild::Preprocess rules = *info.preprocess;
  if (!how.empty()) normalize(rules, how);
  std::vector<std::string> labels = arguments.plain.size() < 3 ? info.labels : read_labels(arguments.plain[2]);
  tvmbuild::Picture picture = tvmbuild::read_picture(arguments.plain[1]);

  tvmbuild::Tensor tensor = tvmbuild::preprocess(info, picture, &rules);
  std::vector<tvmbuild::Tensor> inputs = read_others(arguments, info, rules);
  inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(tvmbuild::picture_input(info, rules)), tensor);
  std::printf("model: %s for %s, %d of %d tasks tuned, %d threads\n", info.model.c_str(), info.target.c_str(),
              info.covered, info.tasks, session.threads());
  std::printf("picture: %dx%d, %d channels\n", picture.width, picture.height, picture.channels);
  std::printf("input: %s %s %s %s, resize %s\n", tensor.info().name.c_str(), tensor.info().dtype.c_str(),
              show(tensor.info().shape).c_str(), rules.layout.c_str(), rules.resize.c_str());
  std::printf("color: %s\nscale: %.9g\nmean: %s\nstd: %s\n", rules.color.c_str(), rules.scale, join(rules.mean).c_str(),
              join(rules.std).c_str());
  if (tensor.info().dtype == "float32") {
    auto [least, most] = std::minmax_element(tensor.as<float>(), tensor.as<float>() + tensor.info().count());
    std::printf("range: %.6f to %.6f\n", *least, *most);
  }
  if (!print_outputs(session.run(inputs), labels, top))
    throw tvmbuild::Error("no output of " + info.model + " has one score for each class");
}

}  // namespace

int main(int count, char **words) {
  return tvmbuild::run_program(USAGE, count, words, [&] {
    run(tvmbuild::read_arguments(count, words,
                                 {"--normalize", "--top", "--threads", "--frame", "--encoding", "--width", "--score",
                                  "--overlap", "--input", "--size"},
                                 1, 3));
  });
}
