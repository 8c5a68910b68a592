// Frames that are a cv::Mat, and maps as one. Only this header needs OpenCV, of which `core` is enough.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "tvmbuild.hpp"

namespace tvmbuild {

// Run on a frame of 8 bits a channel. Its encoding is bgr8, bgra8 or mono8 by the number of channels, unless the
// options name another. A matrix whose rows have other gaps than the package's frame is copied; others are used in
// place, as Session::run_frame does.
inline const Results &run_frame(Session &session, const cv::Mat &mat, FrameOptions options = {}) {
  if (mat.dims != 2 || mat.depth() != CV_8U || mat.empty())
    throw Error("a cv::Mat is a frame if it has rows, columns and 8 bits a channel (CV_8U): convert it, or fill it");
  if (options.encoding.empty())
    options.encoding = mat.channels() == 3 ? "bgr8" : mat.channels() == 4 ? "bgra8" : "mono8";
  std::vector<int64_t> shape = {mat.rows, mat.cols};
  if (mat.channels() != 1) shape.push_back(mat.channels());
  const Frame *found = nullptr;
  std::string known;
  for (const Frame &each : session.info().frames) {
    Frame plain = each;
    plain.stride = 0;
    bool same_rows = each.bytes() == mat.step * static_cast<size_t>(mat.rows);  // they need no copy
    if (options.encoding == each.encoding && plain.shape() == shape && (found == nullptr || same_rows)) found = &each;
    known += (known.empty() ? "; it takes " : ", ") + each.encoding + " " + std::to_string(each.height) + "x" +
             std::to_string(each.width);
  }
  if (found == nullptr)
    throw Error(session.info().model + " takes no " + options.encoding + " of a cv::Mat with " +
                std::to_string(mat.rows) + " rows, " + std::to_string(mat.cols) + " columns and " +
                std::to_string(mat.channels()) + " channels" + known);
  options.width = found->width;
  size_t size = found->bytes(), stride = size / static_cast<size_t>(mat.rows);
  if (mat.step == stride && mat.data + size <= mat.datalimit) return session.run_frame(mat.data, size, options);
  cv::Mat bytes(mat.rows, static_cast<int>(stride), CV_8UC1, cv::Scalar(0));
  cv::Mat rows(mat.rows, mat.cols, mat.type(), bytes.data, stride);
  mat.copyTo(rows);
  return session.run_frame(bytes.data, size, options);
}

// A view of a map's pixels, CV_8UC1, valid as long as the map. It is empty if the package makes no such map.
inline cv::Mat as_mat(const Map &map) {
  if (map.pixels == nullptr) return {};
  return {map.height, map.width, CV_8UC1, const_cast<uint8_t *>(map.pixels)};
}

}  // namespace tvmbuild
