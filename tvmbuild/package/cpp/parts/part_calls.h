// The calls for the parts of a batch, and their joined outputs: package/runtime/fitting.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../tvmbuild.hpp"
#include "batch.h"
#include "device.h"
#include "sizes.h"

namespace tvmbuild::detail {

// Return the axis of a tensor with a letter. Without one: the rank.
inline size_t find_axis(const std::vector<Axis> &shape, const std::string &letter) {
  auto found = std::find_if(shape.begin(), shape.end(), [&](const Axis &axis) { return axis.letter == letter; });
  return static_cast<size_t>(found - shape.begin());
}

inline size_t element_size(const TensorInfo &info) { return dtype_sizes().at(info.dtype); }

// Copy some rows of an array to the beginning of another, or, with `back`, the beginning to the rows.
inline void copy_rows(const Tensor &whole, size_t axis, int64_t start, int64_t count, const Tensor &part, bool back) {
  const std::vector<int64_t> &shape = whole.info().shape, &other = part.info().shape;
  size_t size = element_size(whole.info());
  char *rows = static_cast<char *>(whole.data()) + static_cast<size_t>(start) * stride_of(shape, axis, size);
  std::vector<int64_t> common(shape.size());
  for (size_t i = 0; i < shape.size(); i++) common[i] = i == axis ? count : std::min(shape[i], other[i]);
  if (back) {
    copy_region(static_cast<const char *>(part.data()), other, rows, shape, common, size);
  } else {
    copy_region(rows, shape, static_cast<char *>(part.data()), other, common, size);
  }
}

// The calls for the parts of one batch.
class PartCalls {
 public:
  // Makes a tensor of a form that shares the memory of another from a byte on.
  using View = std::function<Tensor(const Tensor &whole, const TensorInfo &form, size_t offset)>;

  PartCalls() = default;

  // Inputs of a size that is computed in parts, one of them by `function`.
  PartCalls(const Info &info, const SizeFunction &function, const std::vector<Tensor> &inputs,
            const std::map<std::string, int64_t> &size)
      : inputs_(inputs) {
    const std::string &letter = info.sizes.range.letter;
    for (size_t i = 0; i < inputs.size(); i++) {
      const TensorInfo &wanted = info.inputs[i], &got = inputs[i].info();
      if (!inputs[i].on_host()) throw Error("the input " + wanted.name + " would have to be cut on its device");
      if (got.dtype != wanted.dtype)
        throw Error("the input " + wanted.name + " of " + info.model + " is " + wanted.dtype + ", got " + got.dtype);
      auto found = info.sizes.inputs.find(wanted.name);
      axes_.push_back(found == info.sizes.inputs.end() ? got.shape.size() : find_axis(found->second, letter));
    }
    for (size_t i = 0; i < info.outputs.size(); i++) {
      const std::vector<Axis> &axes = info.sizes.outputs.at(info.outputs[i].name);
      TensorInfo form{info.outputs[i].name, function.outputs[i], info.outputs[i].dtype, {}};
      for (size_t axis = 0; axis < axes.size(); axis++) {
        if (!axes[axis].letter.empty()) form.shape[axis] = size.at(axes[axis].letter);
      }
      forms_.push_back(std::move(form));
      output_axes_.push_back(find_axis(axes, letter));
    }
  }

  // Add the call of a size's session. An input is a view of the rows where it fits and is aligned, or else a copy,
  // which the parts of one size share.
  void add(const Info &info, Session &session, const BatchPart &part, const View &view) {
    Call call{&session, part, {}, {}};
    std::vector<std::optional<Tensor>> &room = rooms_[part.place];
    room.resize(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); i++) {
      const TensorInfo &wanted = session.info().inputs[i];
      std::optional<size_t> offset = find_rows(i, part, wanted);
      call.copied.push_back(!offset);
      if (offset) {
        call.inputs.push_back(view(inputs_[i], wanted, *offset));
        continue;
      }
      if (!room[i]) {
        room[i].emplace(wanted);
        auto value = info.sizes.pad.find(wanted.name);
        if (value != info.sizes.pad.end()) fill(*room[i], value->second);
      }
      call.inputs.push_back(*room[i]);
    }
    calls_.push_back(std::move(call));
  }

  bool empty() const { return calls_.empty(); }
  const std::vector<TensorInfo> &forms() const { return forms_; }

  // Run all parts, and join their outputs, in new arrays if the last ones were shared.
  void run() {
    if (shared_ || outputs_.empty()) {
      outputs_.clear();
      for (const TensorInfo &each : forms_) outputs_.emplace_back(each);
      shared_ = false;
    }
    for (const Call &call : calls_) {
      const BatchPart &part = call.part;
      for (size_t i = 0; i < inputs_.size(); i++) {
        if (call.copied[i]) copy_rows(inputs_[i], axes_[i], part.start, part.count, call.inputs[i], false);
      }
      call.session->bind(call.inputs);
      call.session->call();
      std::vector<Tensor> made = call.session->outputs_in_place();
      for (size_t i = 0; i < made.size(); i++)
        copy_rows(outputs_[i], output_axes_[i], part.start, part.count, made[i].to_host(), true);
    }
    has_run_ = true;
  }

  // Return the outputs of the last run. If they are given away, later runs do not change them.
  const std::vector<Tensor> &outputs(bool give_away) {
    if (!has_run_) throw Error("call() has not run on the bound inputs");
    shared_ = shared_ || give_away;
    return outputs_;
  }

 private:
  struct Call {
    Session *session;
    BatchPart part;
    std::vector<Tensor> inputs;
    std::vector<bool> copied;
  };

  // Return the bytes before the rows of a part, if they can be bound as they lie in memory.
  std::optional<size_t> find_rows(size_t input, const BatchPart &part, const TensorInfo &wanted) const {
    std::vector<int64_t> rows = inputs_[input].info().shape;
    size_t axis = axes_[input], offset = 0, blocks = 1;
    if (axis < rows.size()) {
      offset = static_cast<size_t>(part.start) * stride_of(rows, axis, element_size(wanted));
      for (size_t each = 0; each < axis; each++) blocks *= static_cast<size_t>(rows[each]);
      rows[axis] = part.count;
    }
    auto address = reinterpret_cast<uintptr_t>(inputs_[input].data()) + offset;
    bool fits = rows == wanted.shape && blocks == 1 && address % ALIGNMENT == 0;
    return fits ? std::optional<size_t>(offset) : std::nullopt;
  }

  std::vector<Tensor> inputs_;                                  // as they were bound
  std::vector<size_t> axes_;                                    // of the batch in each; one without it has its rank
  std::vector<Call> calls_;                                     // none: the inputs are not computed in parts
  std::map<size_t, std::vector<std::optional<Tensor>>> rooms_;  // the copies of inputs, by the function's place
  std::vector<TensorInfo> forms_;                               // of the joined outputs
  std::vector<size_t> output_axes_;
  std::vector<Tensor> outputs_;
  bool shared_ = false, has_run_ = false;
};

}  // namespace tvmbuild::detail
