// The results of a frame, and outputs, as arrays of C. A part of libtvmbuild.so.
#pragma once

#include <string_view>
#include <vector>

#include "errors.h"

namespace tvmbuild::c {

// A view into a whole std::string as C's string.
inline const char *words_of(std::string_view text) { return text.empty() ? "" : text.data(); }

inline tvmbuild_map view(const Map &map) { return {map.height, map.width, map.pixels}; }

inline tvmbuild_point view(const Point &point) {
  return {point.x, point.y, point.score, point.index, words_of(point.label)};
}

inline tvmbuild_array view(const Tensor &tensor) {
  const TensorInfo &info = tensor.info();
  return {tensor.data(), info.shape.data(), info.shape.size(), info.dtype.c_str()};
}

inline void view_all(const std::vector<Tensor> &tensors, std::vector<tvmbuild_array> &arrays) {
  arrays.clear();
  arrays.reserve(tensors.size());
  for (const Tensor &each : tensors) arrays.push_back(view(each));
}

// Keeps the arrays of a session's last frame.
class ResultsView {
 public:
  tvmbuild_results read(const Results &from) {
    static_assert(sizeof(int) == sizeof(int32_t));
    reserve(from);
    boxes_.clear();
    box_points_.clear();
    for (const Box &each : from.boxes) {
      const tvmbuild_point *points = box_points_.data() + box_points_.size();  // they stay, because all have room
      for (const Point &point : each.points) box_points_.push_back(view(point));
      boxes_.push_back({each.x, each.y, each.width, each.height, each.score, each.index, words_of(each.label), points,
                        each.points.size()});
    }
    classes_.clear();
    for (const Class &each : from.classes) classes_.push_back({each.score, each.index, words_of(each.label)});
    points_.clear();
    for (const Point &each : from.points) points_.push_back(view(each));
    view_all(from.outputs, outputs_);
    tvmbuild_results to = {};
    to.boxes = boxes_.data();
    to.box_count = boxes_.size();
    to.classes = classes_.data();
    to.class_count = classes_.size();
    to.points = points_.data();
    to.point_count = points_.size();
    to.masks = view(from.masks);
    to.segmentation = view(from.segmentation);
    to.text = words_of(from.text.text);
    to.text_score = from.text.score;
    to.symbols = from.text.symbols.data();
    to.symbol_count = from.text.symbols.size();
    to.vector = from.vector.data();
    to.vector_count = from.vector.size();
    to.outputs = outputs_.data();
    to.output_count = outputs_.size();
    segmentations_.clear();
    for (const Map &each : from.segmentations) segmentations_.push_back(view(each));
    to.segmentations = segmentations_.data();
    to.segmentation_count = segmentations_.size();
    return to;
  }

 private:
  // Make room for the largest result, so that no later frame allocates.
  void reserve(const Results &from) {
    size_t points = from.boxes.empty() ? 0 : from.boxes[0].points.size();
    boxes_.reserve(from.boxes.capacity());
    box_points_.reserve(from.boxes.capacity() * points);
    classes_.reserve(from.classes.capacity());
    points_.reserve(from.points.capacity());
    segmentations_.reserve(from.segmentations.capacity());
  }

  std::vector<tvmbuild_box> boxes_;
  std::vector<tvmbuild_class> classes_;
  std::vector<tvmbuild_point> points_, box_points_;
  std::vector<tvmbuild_array> outputs_;
  std::vector<tvmbuild_map> segmentations_;
};

}  // namespace tvmbuild::c
