// Frames of a camera and their results: the twin of package/frames.py and package/results.py. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device.h"
#include "metadata.h"
#include "tvm_calls.h"

namespace tvmbuild::detail {

inline const Encoding &find_encoding(const std::string &name) {
  auto found = encodings().find(name);
  if (found == encodings().end()) throw Error("there is no encoding " + name + " of frames");
  return found->second;
}

// Return the number of the frame with as many bytes. Throws if none or several fit.
inline size_t find_frame(const Info &info, size_t size, const FrameOptions &options) {
  size_t fitting = 0, number = 0;
  for (size_t i = 0; i < info.frames.size(); i++) {
    const Frame &each = info.frames[i];
    bool fits = each.bytes() == size && (options.encoding.empty() || options.encoding == each.encoding) &&
                (options.width == 0 || options.width == each.width);
    if (fits && fitting++ == 0) number = i;
  }
  if (fitting == 1) return number;
  if (info.frames.empty()) throw Error(info.model + " takes no frames");
  std::string known, asked = std::to_string(size) + " bytes";
  for (const Frame &each : info.frames)
    known += (known.empty() ? "" : ", ") + each.encoding + " " + show(each.shape()) + " of " +
             std::to_string(each.bytes()) + " bytes";
  if (!options.encoding.empty()) asked += " in " + options.encoding;
  if (options.width != 0) asked += ", " + std::to_string(options.width) + " pixels wide";
  if (fitting == 0) throw Error(info.model + " takes no frame of " + asked + "; it takes " + known);
  throw Error("several frames of " + info.model + " have " + asked + ", so say the encoding or the width: " + known);
}

// An array in the host's memory that TVM sees too.
struct HostArray {
  std::shared_ptr<void> memory;
  Value value;
};

inline HostArray make_host_array(const TensorInfo &info) {
  HostArray array{allocate_aligned(info.bytes(), info.name), Value()};
  array.value = share(info, array.memory);
  return array;
}

// Runs a package's functions for frames. All that a call needs is kept for the next one, because allocating would cost
// time at every frame. `info`, `machine` and `params` must outlive this.
class FrameRunner {
 public:
  FrameRunner(const Info &info, const Value &machine, const std::vector<Value> &params, DLDevice device)
      : info_(info), machine_(machine), params_(params), device_(device), functions_(info.frames.size()) {
    get_item_ = find_global("ffi.ArrayGetItem");
    if (is_host(device)) return;
    copy_in_ = find_global("runtime.TVMTensorCopyFromTo");
    if (device.device_type == kDLVulkan) copy_together_ = look_up("tvmbuild_vulkan.copy_to_host");
    copy_out_ = find_global("runtime.TVMTensorCopyToBytes");
  }

  const Results &run(const uint8_t *bytes, size_t size, const FrameOptions &options) {
    size_t number = find_frame(info_, size, options);
    Function &function = functions_[number];
    DeviceUse use(device_, !function.called);  // the first call may record a graph
    if (info_.postprocess) set_thresholds(options);
    if (function.arguments.empty()) prepare(function, number);
    place(function, bytes, size);
    {
      Value result = invoke(function.entry, function.arguments.data(), function.arguments.size(), function.name);
      collect(result, function.name);
    }
    function.called = true;
    if (info_.postprocess) read_results();
    return results_;
  }

 private:
  struct Function {
    std::string name;
    Value entry;
    Value frame;  // on the host. Its address is that of the bytes of each call.
    Value there;  // on the device, if this is a GPU
    std::vector<TVMFFIAny> arguments;
    bool called = false;
  };
  // An array of the result.
  struct Output {
    Tensor tensor;
    DLDataType dtype;
    Value found;  // the array of the call that is running
  };

  bool on_gpu() const { return !is_host(device_); }

  void prepare(Function &function, size_t number) {
    std::string name = "frame" + std::to_string(number);
    TensorInfo info{"the frame", info_.frames[number].shape(), "uint8"};
    function.name = name + " of " + info_.model;
    function.entry = find_function(machine_, name);
    Value arity = invoke(find_function(machine_, "get_function_arity"), {argument_of(name.c_str())},
                         "there is no function " + name);
    function.frame = share(info, nullptr);
    if (on_gpu()) function.there = allocate(info, device_);
    std::vector<TVMFFIAny> arguments = {(on_gpu() ? function.there : function.frame).view()};
    if (info_.postprocess) arguments.push_back((on_gpu() ? thresholds_there_ : thresholds_.value).view());
    for (const Value &each : params_) arguments.push_back(each.view());
    if (arity.view().v_int64 != static_cast<int64_t>(arguments.size()))
      throw Error("the package does not fit together: its " + name + " takes another number of arrays");
    function.arguments = std::move(arguments);
  }

  // Return one of the arrays that a function returned.
  Value find_array(const Value &result, size_t index, const std::string &name) const {
    TVMFFIAny arguments[] = {result.view(), argument_of(static_cast<int64_t>(index))};
    bool single = !info_.postprocess && info_.outputs.size() == 1;
    if (result.type() != (single ? kTVMFFITensor : kTVMFFIArray)) throw Error(name + " returns something else");
    Value found = single ? Value::retain(result.object(), kTVMFFITensor) : invoke(get_item_, arguments, 2, name);
    if (found.type() != kTVMFFITensor) throw Error(name + " returns something else");
    return found;
  }

  // Make the memory that results are copied to. A network with fewer candidates than `most` returns shorter arrays.
  void make_room(const Value &result, const std::string &name) {
    std::vector<TensorInfo> infos = info_.outputs;
    if (info_.postprocess) {
      Value scores = find_array(result, 1, name);
      const DLTensor *found = TVMFFITensorGetDLTensorPtr(scores.object());
      int64_t most = found->ndim == 1 ? found->shape[0] : 0;
      if (most < 1 || most > info_.postprocess->most)
        throw Error(name + " returns another number of results than mod.json says");
      infos = {{"boxes", {most, 4}, "float32"},
               {"scores", {most}, "float32"},
               {"classes", {most}, "int32"},
               {"count", {1}, "int32"}};
      results_.boxes.reserve(info_.postprocess->kind == "boxes" ? most : 0);
      results_.classes.reserve(info_.postprocess->kind == "boxes" ? 0 : most);
    }
    std::vector<Output> outputs;
    outputs.reserve(infos.size());
    for (const TensorInfo &info : infos) outputs.push_back({Tensor(info), read_dtype(info.dtype), Value()});
    if (!info_.postprocess) {
      for (const Output &each : outputs) results_.outputs.push_back(each.tensor);
    }
    copies_.reserve(2 * outputs.size());
    outputs_ = std::move(outputs);
  }

  void set_thresholds(const FrameOptions &options) {
    const Postprocess &own = *info_.postprocess;
    float asked[2] = {static_cast<float>(options.score.value_or(own.score)),
                      static_cast<float>(options.overlap.value_or(own.overlap))};
    if (thresholds_.memory == nullptr) {
      TensorInfo info{"the thresholds", {2}, "float32"};
      if (on_gpu()) thresholds_there_ = allocate(info, device_);
      thresholds_ = make_host_array(info);
    }
    float *held = static_cast<float *>(thresholds_.memory.get());
    if (thresholds_ready_ && std::equal(asked, asked + 2, held)) return;
    thresholds_ready_ = false;
    std::copy(asked, asked + 2, held);
    if (on_gpu()) copy(thresholds_.value, thresholds_there_);
    thresholds_ready_ = true;
  }

  // Let the function read the bytes. Code of a CPU reads whole vectors, so it needs them at an aligned address.
  void place(Function &function, const uint8_t *bytes, size_t size) {
    void *where = const_cast<uint8_t *>(bytes);  // nothing writes to a frame
    if (!on_gpu() && reinterpret_cast<uintptr_t>(bytes) % ALIGNMENT != 0) {
      if (aligned_ == nullptr) {
        size_t most = 0;
        for (const Frame &each : info_.frames) most = std::max(most, each.bytes());
        aligned_ = allocate_aligned(most, "the frame");
      }
      where = aligned_.get();
      std::memcpy(where, bytes, size);
    }
    TVMFFITensorGetDLTensorPtr(function.frame.object())->data = where;
    if (on_gpu()) copy(function.frame, function.there);
  }

  void copy(const Value &from, const Value &to) {
    TVMFFIAny arguments[] = {from.view(), to.view()};
    invoke(copy_in_, arguments, 2, info_.model);
  }

  // Copy the arrays of a result to the host. This waits for the device.
  void collect(const Value &result, const std::string &name) {
    if (outputs_.empty()) make_room(result, name);
    for (size_t i = 0; i < outputs_.size(); i++) {
      outputs_[i].found = find_array(result, i, name);
      check(outputs_[i], name);
    }
    if (copy_together_.type() == kTVMFFIFunction) {
      copies_.clear();
      for (const Output &output : outputs_) {
        copies_.push_back(output.found.view());
        copies_.push_back(argument_of(output.tensor.data()));
      }
      invoke(copy_together_, copies_.data(), copies_.size(), name);
    }
    for (Output &output : outputs_) {
      const DLTensor *found = TVMFFITensorGetDLTensorPtr(output.found.object());
      if (!on_gpu()) {
        std::memcpy(output.tensor.data(), static_cast<char *>(found->data) + found->byte_offset,
                    output.tensor.info().bytes());
      } else if (copy_together_.type() != kTVMFFIFunction) {
        TVMFFIAny arguments[] = {output.found.view(), argument_of(output.tensor.data()),
                                 argument_of(static_cast<int64_t>(output.tensor.info().bytes()))};
        invoke(copy_out_, arguments, 3, name);
      }
      output.found = Value();
    }
  }

  static void check(const Output &output, const std::string &name) {
    const TensorInfo &wanted = output.tensor.info();
    const DLTensor *found = TVMFFITensorGetDLTensorPtr(output.found.object());
    bool same = found->ndim == static_cast<int32_t>(wanted.shape.size()) && found->dtype.code == output.dtype.code &&
                found->dtype.bits == output.dtype.bits && found->dtype.lanes == output.dtype.lanes &&
                std::equal(wanted.shape.begin(), wanted.shape.end(), found->shape);
    if (!same) throw Error(name + " returns another array " + wanted.name + " than mod.json says");
  }

  void read_results() {
    results_.boxes.clear();
    results_.classes.clear();
    const float *corners = outputs_[0].tensor.as<float>(), *scores = outputs_[1].tensor.as<float>();
    const int32_t *classes = outputs_[2].tensor.as<int32_t>();
    int count = std::clamp(outputs_[3].tensor.as<int32_t>()[0], 0, static_cast<int>(outputs_[1].tensor.info().count()));
    bool boxes = info_.postprocess->kind == "boxes";
    for (int i = 0; i < count; i++, corners += 4) {
      bool named = classes[i] >= 0 && static_cast<size_t>(classes[i]) < info_.labels.size();
      std::string_view label = named ? std::string_view(info_.labels[classes[i]]) : std::string_view();
      if (boxes) {
        results_.boxes.push_back(
            {corners[0], corners[1], corners[2] - corners[0], corners[3] - corners[1], scores[i], classes[i], label});
      } else {
        results_.classes.push_back({scores[i], classes[i], label});
      }
    }
  }

  const Info &info_;
  const Value &machine_;
  const std::vector<Value> &params_;
  DLDevice device_;
  Value get_item_, copy_in_, copy_out_;
  Value copy_together_;              // of our Vulkan runtime, which waits once for all arrays; else none
  std::vector<Function> functions_;  // by the frame's number
  std::shared_ptr<void> aligned_;    // for bytes at other addresses
  HostArray thresholds_;
  Value thresholds_there_;  // on the device, if this is a GPU
  bool thresholds_ready_ = false;
  std::vector<Output> outputs_;
  std::vector<TVMFFIAny> copies_;
  Results results_;
};

}  // namespace tvmbuild::detail
