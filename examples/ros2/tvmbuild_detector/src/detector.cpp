#include "tvmbuild_detector/detector.hpp"

#include <algorithm>
#include <stdexcept>

namespace tvmbuild_detector {

namespace {

void check(tvmbuild_status status) {
  if (status != TVMBUILD_OK) throw std::runtime_error(tvmbuild_last_error());
}

bool is_number(const std::string &text) {
  return !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
}

// Closes a handle when loading fails half-way.
struct Closer {
  void operator()(void *handle) const { tvmbuild_close(handle); }
};

}  // namespace

Detector::Detector(const Options &options) {
  if (tvmbuild_abi() != TVMBUILD_ABI) throw std::runtime_error("libtvmbuild.so is of another version than tvmbuild.h");
  std::vector<const char *> paths;
  for (const std::string &each : options.packages) {
    if (!each.empty()) paths.push_back(each.c_str());  // a launch file cannot write an empty list
  }
  if (paths.empty()) throw std::runtime_error("no package is named: set the parameter `packages`");
  tvmbuild_load_options load = {};
  load.size = sizeof(load);
  load.threads = options.threads;
  load.priority = options.priority;
  check(tvmbuild_load(paths.data(), paths.size(), &load, &session_));
  std::unique_ptr<void, Closer> session(session_), package;
  check(tvmbuild_describe(session_, &package_));
  package.reset(package_);
  tvmbuild_package_info info = {};
  info.size = sizeof(info);
  check(tvmbuild_package_describe(package_, &info));
  model_ = info.model;
  labels_.assign(info.labels, info.labels + info.label_count);
  bool finds_boxes = false;
  for (size_t i = 0; i < info.result_count; i++) {
    tvmbuild_result_info result = {};
    result.size = sizeof(result);
    check(tvmbuild_package_result(package_, i, &result));
    std::string kind = result.kind;
    if (kind != "boxes" && kind != "masks" && kind != "keypoints") continue;
    finds_boxes = true;
    if (result.label_count != 0) labels_.assign(result.labels, result.labels + result.label_count);
  }
  if (!finds_boxes || info.frame_count == 0)
    throw std::runtime_error(model_ + " is no detector: its package needs `preprocess: {frame: …}` and " +
                             "`postprocess: {boxes: …}` in models.yaml");
  framer_ = std::make_unique<Framer>(list_frames(package_));
  choose(options.score, options.overlap, options.classes);
  static_cast<void>(session.release());
  static_cast<void>(package.release());
}

Detector::~Detector() {
  tvmbuild_close(package_);
  tvmbuild_close(session_);
}

void Detector::choose(std::optional<double> score, std::optional<double> overlap,
                      const std::vector<std::string> &classes) {
  std::set<int> wished;
  for (const std::string &each : classes) {
    if (each.empty()) continue;
    auto found = std::find(labels_.begin(), labels_.end(), each);
    if (found == labels_.end() && !is_number(each)) {
      std::string known;
      for (const std::string &label : labels_) known += (known.empty() ? "; it knows " : ", ") + label;
      throw std::runtime_error(model_ + " knows no class " + each + known);
    }
    wished.insert(found == labels_.end() ? std::stoi(each) : static_cast<int>(found - labels_.begin()));
  }
  score_ = score;
  overlap_ = overlap;
  wished_ = std::move(wished);
}

std::string Detector::passed_over() const {
  const char *lines = "";
  check(tvmbuild_passed_over(session_, &lines));
  return lines;
}

std::vector<Detection> Detector::detect(const Image &image) {
  Framer::Frame frame = framer_->lay_out(image);
  tvmbuild_frame_options options = {};
  options.size = sizeof(options);
  options.encoding = frame.form->encoding.c_str();
  options.width = static_cast<int32_t>(frame.form->width);
  options.score = score_ ? &*score_ : nullptr;
  options.overlap = overlap_ ? &*overlap_ : nullptr;
  tvmbuild_results results = {};
  results.size = sizeof(results);
  check(tvmbuild_run_frame(session_, frame.data, frame.size, &options, &results));
  std::vector<Detection> found;
  for (size_t i = 0; i < results.box_count; i++) {
    const tvmbuild_box &box = results.boxes[i];
    if (!wished_.empty() && wished_.count(box.index) == 0) continue;
    std::string name = box.label;
    found.push_back({box.x + box.width / 2.0, box.y + box.height / 2.0, box.width, box.height,
                     name.empty() ? std::to_string(box.index) : name, box.score});
  }
  return found;
}

}  // namespace tvmbuild_detector
