#include "tvmbuild_detector/image.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

namespace tvmbuild_detector {

namespace {

// The bytes of a pixel in the encodings that are not planes.
size_t count_channels(const std::string &encoding) {
  if (encoding == "rgb8" || encoding == "bgr8") return 3;
  if (encoding == "rgba8" || encoding == "bgra8") return 4;
  if (encoding == "yuyv" || encoding == "uyvy") return 2;
  return 1;  // mono8, bayer_rggb8, …, and planes
}

bool has_planes(const std::string &encoding) { return encoding == "nv12" || encoding == "nv21" || encoding == "i420"; }

std::string describe(const std::string &encoding, size_t width, size_t height) {
  return encoding + " of " + std::to_string(width) + "x" + std::to_string(height);
}

}  // namespace

std::string name_encoding(const std::string &ros) {
  static const std::map<std::string, std::string> names = {
      {"yuv422", "uyvy"}, {"yuv422_yuy2", "yuyv"}, {"8UC1", "mono8"}, {"8UC3", "bgr8"}, {"8UC4", "bgra8"}};
  auto found = names.find(ros);
  return found == names.end() ? ros : found->second;
}

std::vector<FrameForm> list_frames(tvmbuild_package *package) {
  auto check = [](tvmbuild_status status) {
    if (status != TVMBUILD_OK) throw std::runtime_error(tvmbuild_last_error());
  };
  tvmbuild_package_info info = {};
  info.size = sizeof(info);
  check(tvmbuild_package_describe(package, &info));
  std::vector<FrameForm> forms;
  for (size_t i = 0; i < info.frame_count; i++) {
    tvmbuild_frame_info frame = {};
    frame.size = sizeof(frame);
    check(tvmbuild_package_frame(package, i, &frame));
    FrameForm form;
    form.encoding = frame.encoding;
    form.height = static_cast<uint32_t>(frame.height);
    form.width = static_cast<uint32_t>(frame.width);
    form.rows = has_planes(form.encoding) ? size_t{form.height} * 3 / 2 : form.height;
    form.used = size_t{form.width} * count_channels(form.encoding);
    form.stride = frame.stride == 0 ? form.used : static_cast<size_t>(frame.stride);
    forms.push_back(form);
  }
  return forms;
}

Framer::Frame Framer::lay_out(const Image &image) {
  std::string encoding = name_encoding(image.encoding), known;
  const FrameForm *found = nullptr;
  for (const FrameForm &each : forms_) {
    bool fits = each.encoding == encoding && each.height == image.height && each.width == image.width;
    if (fits && (found == nullptr || each.stride == image.step)) found = &each;
    known += (known.empty() ? "" : ", ") + describe(each.encoding, each.width, each.height);
  }
  if (found == nullptr)
    throw std::runtime_error("the package takes no " + describe(image.encoding, image.width, image.height) +
                             (known.empty() ? ": it has no frames" : "; it takes " + known));
  // The last row may end with its last pixel.
  size_t step = image.step, needed = found->rows == 0 ? 0 : (found->rows - 1) * step + found->used;
  if (step < found->used || image.data == nullptr || image.size < needed)
    throw std::runtime_error("the picture is cut short: " + describe(image.encoding, image.width, image.height) +
                             " with a step of " + std::to_string(step) + " has " + std::to_string(needed) +
                             " bytes, and " + std::to_string(image.size) + " came");
  size_t size = found->rows * found->stride;
  if (step == found->stride && image.size >= size) return {image.data, size, found};
  copy_.resize(size);
  size_t bytes = std::min(step, found->stride);
  for (size_t row = 0; row < found->rows; row++) {
    size_t from = row * step, rest = std::min(bytes, image.size - from);
    std::memcpy(copy_.data() + row * found->stride, image.data + from, rest);
  }
  return {copy_.data(), size, found};
}

}  // namespace tvmbuild_detector
