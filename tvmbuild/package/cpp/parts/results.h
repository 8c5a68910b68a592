// The arrays that a package's functions return for a result, and the structs that they become: the twin of
// package/result_arrays.py. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device.h"
#include "metadata.h"
#include "tvm_calls.h"

namespace tvmbuild::detail {

constexpr int64_t BOX_COLUMNS = 6;    // left, top, right, bottom, score and class
constexpr int64_t TEXT_COLUMNS = 2;   // a symbol and its probability
constexpr int64_t POINT_COLUMNS = 3;  // x, y and score

// An array that a function returns, and the memory that it is copied to.
struct Output {
  Tensor tensor;
  DLDataType dtype;
  Value found;  // the array of the call that is running
};

// Move the first elements of an array along each axis together, as an array of that shape. This allocates nothing.
inline void cut_in_place(char *data, const TensorInfo &whole, const std::vector<int64_t> &shape) {
  size_t inner = whole.bytes() / std::max<size_t>(whole.count(), 1);  // the bytes after the axis, which are cut
  for (size_t axis = shape.size(); axis-- > 0; inner *= static_cast<size_t>(shape[axis])) {
    if (shape[axis] == whole.shape[axis]) continue;
    size_t outer = 1, run = static_cast<size_t>(shape[axis]) * inner;
    for (size_t i = 0; i < axis; i++) outer *= static_cast<size_t>(whole.shape[i]);
    for (size_t i = 1; i < outer; i++)
      std::memmove(data + i * run, data + i * static_cast<size_t>(whole.shape[axis]) * inner, run);
  }
}

// Throw if the array of the call is of another form than the memory.
inline void check(const Output &output, const std::string &name) {
  const TensorInfo &wanted = output.tensor.info();
  const DLTensor *found = TVMFFITensorGetDLTensorPtr(output.found.object());
  bool same = found->ndim == static_cast<int32_t>(wanted.shape.size()) && found->dtype.code == output.dtype.code &&
              found->dtype.bits == output.dtype.bits && found->dtype.lanes == output.dtype.lanes &&
              std::equal(wanted.shape.begin(), wanted.shape.end(), found->shape);
  if (!same) throw Error(name + " returns another array " + wanted.name + " than mod.json says");
}

// Write the thresholds for a call, two for each result; `place` is 0 for scores and 1 for overlaps. A given one is that
// of the first result that has it. Throws if none has it, or if it is no threshold.
inline void choose_thresholds(const std::vector<Postprocess> &results, size_t place, std::optional<double> given,
                              std::vector<float> &chosen) {
  std::string kinds;
  const bool possible = !given || (place == 0 ? !std::isnan(*given) : *given >= 0 && *given <= 1);
  if (!possible) {
    if (place == 0) throw Error("the threshold `score` is NaN, and must be a number");
    std::array<char, 32> shown{};
    std::snprintf(shown.data(), shown.size(), "%g", *given);
    throw Error(std::string("the threshold `overlap` is ") + shown.data() + ", and must be from 0 to 1");
  }
  for (size_t i = 0; i < results.size(); i++) {
    const std::optional<double> &known = place == 0 ? results[i].score : results[i].overlap;
    chosen[2 * i + place] = static_cast<float>(known && given ? *given : known.value_or(1));
    if (known) given.reset();
  }
  if (!given) return;
  for (const Postprocess &each : results) kinds += (kinds.empty() ? "a result `" : " and `") + each.kind + "`";
  throw Error((kinds.empty() ? "a model's output" : kinds) + " has no threshold `" +
              (place == 0 ? "score" : "overlap") + "`");
}

// Return the number of arrays of a result: masks have a map after their boxes.
inline size_t count_arrays(const Postprocess &own) {
  return own.kind == "raw" ? own.outputs.size() : own.kind == "masks" ? 2 : 1;
}

// Return the whole number that a float holds, or the nearest int.
inline int to_int(float value) {
  constexpr float END = 2147483648.0F;
  if (!(value >= -END)) return std::numeric_limits<int>::min();
  return value < END ? static_cast<int>(value) : std::numeric_limits<int>::max();
}

// The rows of an array after the first, which begins with their number.
struct Rows {
  explicit Rows(const Tensor &array)
      : columns(array.info().shape[1]),
        first(array.as<float>() + columns),
        count(std::clamp(to_int(*array.as<float>()), 0, static_cast<int>(array.info().shape[0] - 1))) {}
  const float *operator[](int row) const { return first + row * columns; }

  int64_t columns;
  const float *first;
  int count;
};

// Makes a package's results of the arrays of its functions. It keeps the memory of the last result for the next one.
// `info` must outlive this.
class ResultReader {
  using Number = char[16];  // any int in angle brackets

 public:
  explicit ResultReader(const Info &info) : info_(info) {}

  // Make the memory for the arrays of a frame's function. `lengths` are those of the first array of each result.
  std::vector<Output> make_room(const Frame &frame, const std::vector<int64_t> &lengths, const std::string &name) {
    std::vector<Tensor> tensors;
    std::map<std::string, size_t> totals;  // of all results of a kind
    for (size_t i = 0; i < info_.postprocess.size(); i++) {
      for (const TensorInfo &each : list_arrays(info_.postprocess[i], frame, lengths[i], name))
        tensors.emplace_back(each);
      if (info_.postprocess[i].kind == "raw")
        results_.outputs.assign(tensors.end() - static_cast<std::ptrdiff_t>(count_arrays(info_.postprocess[i])),
                                tensors.end());
      size_t &total = totals[info_.postprocess[i].kind];
      total += info_.postprocess[i].kind == "segmentation" ? 1 : static_cast<size_t>(lengths[i]);
      reserve(info_.postprocess[i], total);
    }
    if (info_.postprocess.empty()) tensors = share_outputs();
    std::vector<Output> outputs;
    outputs.reserve(tensors.size());
    for (const Tensor &each : tensors) outputs.push_back({each, read_dtype(each.info().dtype), Value()});
    if (!info_.postprocess.empty()) results_.arrays = tensors;
    return outputs;
  }

  const Results &read(const std::vector<Output> &outputs) {
    size_t place = 0;
    for (size_t i = 0; i < results_.arrays.size(); i++) results_.arrays[i] = outputs[i].tensor;
    results_.classes.clear();
    results_.segmentations.clear();
    results_.points.clear();
    if (count_lengths(info_) > 0 && info_.postprocess.empty()) cut_outputs();
    for (const Postprocess &each : info_.postprocess) {
      read(each, &outputs[place]);
      place += count_arrays(each);
    }
    return results_;
  }

 private:
  // Return the memory of the network's outputs, and of the lengths after them. All frames share it, because the
  // outputs have the same form for each.
  std::vector<Tensor> share_outputs() {
    if (results_.outputs.empty()) {
      for (const TensorInfo &each : info_.outputs) whole_.emplace_back(each);
      results_.outputs = whole_;
      if (size_t count = count_lengths(info_))
        whole_.emplace_back(TensorInfo{"lengths", {static_cast<int64_t>(count)}, "int64", {}});
    }
    return whole_;
  }

  // Move the elements of each output together whose length depends on data, and give it the shape that it really has.
  void cut_outputs() {
    const auto *lengths = whole_.back().as<int64_t>();
    for (size_t i = 0; i < results_.outputs.size(); i++) {
      const TensorInfo &whole = whole_[i].info();
      Tensor &cut = results_.outputs[i];
      for (const Count &count : whole.counts)
        cut.info_.shape[count.axis] = std::clamp<int64_t>(lengths[count.place], 0, whole.shape[count.axis]);
      cut_in_place(static_cast<char *>(cut.data()), whole, cut.info().shape);
    }
  }

  void read(const Postprocess &own, const Output *outputs) {
    const Tensor &first = outputs[0].tensor;
    if (own.kind == "raw") {
      for (size_t i = 0; i < own.outputs.size(); i++) results_.outputs[i] = outputs[i].tensor;
    } else if (own.kind == "segmentation") {
      results_.segmentations.push_back(view_map(first));
      results_.segmentation = results_.segmentations.front();
    } else if (own.kind == "vector") {
      results_.vector = View<float>(first.as<float>(), first.info().count());
    } else if (own.kind == "text") {
      read_text(own, Rows(first));
    } else if (own.kind == "heatmaps") {
      read_points(own, Rows(first));
    } else if (own.kind == "classes") {
      read_classes(own, Rows(first));
    } else {
      read_boxes(own, Rows(first));
      if (own.kind == "masks") results_.masks = view_map(outputs[1].tensor);
    }
  }

  std::vector<TensorInfo> list_arrays(const Postprocess &own, const Frame &frame, int64_t length,
                                      const std::string &name) const {
    if (own.kind == "raw") return list_outputs(own);
    TensorInfo map{own.kind, own.in_input ? find_input_size() : std::vector<int64_t>{frame.height, frame.width},
                   "uint8"};
    if (own.kind == "segmentation") return {map};
    bool fixed = own.kind == "boxes" || own.kind == "masks" || own.kind == "keypoints";
    int64_t count = own.kind == "vector" ? length : length - 1;
    // A network may have fewer classes than `most`.
    if (count < 1 || (fixed && count != own.most) || (own.kind == "classes" && count > own.most))
      throw Error(name + " returns another number of results than mod.json says");
    if (own.kind == "vector") return {{own.kind, {length}, "float32"}};
    if (own.kind == "text") return {{own.kind, {length, TEXT_COLUMNS}, "float32"}};
    if (own.kind == "heatmaps") return {{own.kind, {length, POINT_COLUMNS}, "float32"}};
    int64_t columns = BOX_COLUMNS + int64_t{own.points} * own.values;
    TensorInfo rows{fixed ? "boxes" : own.kind, {length, columns}, "float32"};
    if (own.kind == "masks") return {rows, map};
    return {rows};
  }

  std::vector<TensorInfo> list_outputs(const Postprocess &own) const {
    std::vector<TensorInfo> found;
    for (const std::string &name : own.outputs) {
      auto each = std::find_if(info_.outputs.begin(), info_.outputs.end(),
                               [&](const TensorInfo &output) { return output.name == name; });
      if (each == info_.outputs.end()) throw Error("mod.json has a result `raw` of " + name + ", which is no output");
      found.push_back(*each);
    }
    return found;
  }

  // Return height and width of the picture that the network takes.
  std::vector<int64_t> find_input_size() const {
    const std::vector<int64_t> &shape = info_.inputs[picture_input(info_, *info_.preprocess)].shape;
    if (shape.size() != 4) throw Error("the picture of " + info_.model + " has no four dimensions");
    const size_t rows = info_.preprocess->layout == "NHWC" ? 1 : 2;
    return {shape[rows], shape[rows + 1]};
  }

  // Reserve memory for the largest result; `length` is that of all results of the kind so far.
  void reserve(const Postprocess &own, size_t length) {
    if (own.kind == "classes") {
      results_.classes.reserve(length);
    } else if (own.kind == "segmentation") {
      results_.segmentations.reserve(length);
    } else if (own.kind == "heatmaps") {
      results_.points.reserve(length);
    } else if (own.kind == "text") {
      size_t longest = sizeof(Number);
      for (const std::string &each : info_.labels) longest = std::max(longest, each.size());
      text_.reserve(length * longest);
      symbols_.reserve(length);
    } else if (own.most > 0) {
      results_.boxes.reserve(length);
      points_.reserve(length * static_cast<size_t>(own.points));
    }
  }

  // Return a label, or null if there is none.
  const std::string *find_label(const Postprocess &own, int64_t index) const {
    const std::vector<std::string> &labels = own.labels.empty() ? info_.labels : own.labels;
    bool named = index >= 0 && static_cast<size_t>(index) < labels.size();
    return named ? &labels[static_cast<size_t>(index)] : nullptr;
  }

  std::string_view name_class(const Postprocess &own, int64_t index) const {
    const std::string *label = find_label(own, index);
    return label == nullptr ? std::string_view() : std::string_view(*label);
  }

  static Map view_map(const Tensor &map) {
    const std::vector<int64_t> &shape = map.info().shape;
    return {static_cast<int>(shape[0]), static_cast<int>(shape[1]), map.as<uint8_t>()};
  }

  void read_boxes(const Postprocess &own, const Rows &rows) {
    results_.boxes.clear();
    points_.clear();
    for (int i = 0; i < rows.count; i++) {
      const float *row = rows[i];
      int index = to_int(row[5]);
      const Point *points = points_.data() + points_.size();  // they stay there, because all have room
      const float *values = row + BOX_COLUMNS;
      for (int number = 0; number < own.points; number++, values += own.values)
        points_.push_back({values[0], values[1], own.values > 2 ? values[2] : 1, number, {}});
      results_.boxes.push_back({row[0],
                                row[1],
                                row[2] - row[0],
                                row[3] - row[1],
                                row[4],
                                index,
                                name_class(own, index),
                                {points, static_cast<size_t>(own.points)}});
    }
  }

  void read_classes(const Postprocess &own, const Rows &rows) {
    for (int i = 0; i < rows.count; i++) {
      int index = to_int(rows[i][5]);
      results_.classes.push_back({rows[i][4], index, name_class(own, index)});
    }
  }

  void read_points(const Postprocess &own, const Rows &rows) {
    for (int i = 0; i < rows.count; i++)
      results_.points.push_back({rows[i][0], rows[i][1], rows[i][2], i, name_class(own, i)});
  }

  void read_text(const Postprocess &own, const Rows &rows) {
    text_.clear();
    symbols_.clear();
    double sum = 0;
    for (int i = 0; i < rows.count; i++) {
      int symbol = to_int(rows[i][0]);
      symbols_.push_back(symbol);
      sum += rows[i][1];
      if (const std::string *label = find_label(own, int64_t{symbol} - (own.blank == "first" ? 1 : 0))) {
        text_ += *label;
      } else {
        Number number;
        std::snprintf(number, sizeof(number), "<%d>", symbol);
        text_ += number;
      }
    }
    float score = rows.count == 0 ? 0 : static_cast<float>(sum / rows.count);
    results_.text = {text_, score, {symbols_.data(), symbols_.size()}};
  }

  const Info &info_;
  Results results_;
  std::vector<Tensor> whole_;  // the memory of results_.outputs in their largest shapes, and the lengths
  std::vector<Point> points_;  // those of all boxes
  std::string text_;
  std::vector<int> symbols_;
};

}  // namespace tvmbuild::detail
