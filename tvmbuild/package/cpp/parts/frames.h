// Frames of a camera, and the functions of a package for them: package/frames.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "lane.h"
#include "metadata.h"
#include "results.h"
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

// An argument of a function beside the frame.
struct Argument {
  std::shared_ptr<void> memory;  // on the host, if it is our own
  Value here, there;             // on the host, and on the device, if this is a GPU
};

// Runs a package's functions for frames. All that a call needs is kept for the next one, because allocating would cost
// time at every frame. `info`, `machine` and `params` must outlive this.
class FrameRunner {
 public:
  FrameRunner(const Info &info, const Value &machine, const std::vector<Value> &params, DLDevice device)
      : info_(info),
        machine_(machine),
        params_(params),
        device_(device),
        reader_(info),
        functions_(info.frames.size()),
        prepared_(info.frames.size()) {
    get_item_ = find_global("ffi.ArrayGetItem");
    if (is_host(device)) return;
    copy_in_ = find_global("runtime.TVMTensorCopyFromTo");
    if (device.device_type == kDLVulkan) copy_together_ = look_up("tvmbuild_vulkan.copy_to_host");
    copy_out_ = find_global("runtime.TVMTensorCopyToBytes");
  }

  // Begin to run on a frame: copy it to the device, in `lane` if there is one, and launch the kernels.
  void start(const uint8_t *bytes, size_t size, const FrameOptions &options, const Lane *lane) {
    size_t number = find_frame(info_, size, options);
    Function &function = functions_[number];
    DeviceUse use(device_, !function.called);  // the first call may record a graph
    {
      Lane::Copies copies(lane);
      set_thresholds(options);
      set_others(options.inputs);
      if (function.arguments.empty()) prepare(function, number);
      place(function, bytes, size);
    }
    if (lane != nullptr) lane->let_kernels_follow();
    started_ = invoke(function.entry, function.arguments.data(), function.arguments.size(), function.name);
    if (lane != nullptr) lane->follow_kernels();
    if (function.outputs.empty()) make_room(function, number, started_);
    running_ = number;
    is_fetching_ = lane != nullptr && copy_together_.type() == kTVMFFIFunction;
    if (!is_fetching_) return;
    find_outputs(function, started_);
    lane->copy_out({copies_.begin(), copies_.end()});
  }

  // Wait for the results of the frame.
  const Results &finish(const Lane *lane) {
    Function &function = functions_[running_];
    DeviceUse use(device_);
    {
      Lane::Copies copies(lane);
      if (is_fetching_) {
        wait_for(device_, function.name);
        for (Output &output : function.outputs) output.found = Value();
      } else {
        collect(function, started_);
      }
    }
    started_ = Value();
    function.called = true;
    return reader_.read(function.outputs);
  }

  Tensor prepare_input(const uint8_t *bytes, size_t size, const FrameOptions &options) {
    size_t number = find_frame(info_, size, options);
    std::string name = "prepare" + std::to_string(number);
    DeviceUse use(device_, !prepared_[number]);  // the first call may record a graph
    Function function;                           // its memory on the device goes before the lock
    begin(function, number, name);
    function.arguments = {(on_gpu() ? function.there : function.frame).view()};
    for (const Value &each : params_) function.arguments.push_back(each.view());
    check_arity(function.arguments.size(), name);
    place(function, bytes, size);
    Value result = invoke(function.entry, function.arguments.data(), function.arguments.size(), function.name);
    if (result.type() != kTVMFFITensor) throw Error(function.name + " returns something else");
    Tensor made(info_.inputs[picture_input(info_, *info_.preprocess)]);
    Output output{made, read_dtype(made.info().dtype), Value::retain(result.object(), kTVMFFITensor)};
    check(output, function.name);
    copy_to_host(output.found, made.data(), made.info().bytes(), function.name);
    prepared_[number] = true;
    return made;
  }

 private:
  struct Function {
    std::string name;
    Value entry;
    Value frame;  // on the host. Its address is that of the bytes of each call.
    Value there;  // on the device, if this is a GPU
    std::vector<TVMFFIAny> arguments;
    std::vector<Output> outputs;  // its own, because a map has the frame's size
    bool called = false;
  };

  bool on_gpu() const { return !is_host(device_); }

  // Find the function that takes a frame, and make the arrays of the frame.
  void begin(Function &function, size_t number, const std::string &name) const {
    TensorInfo info{"the frame", info_.frames[number].shape(), "uint8"};
    function.name = name + " of " + info_.model;
    function.entry = find_function(machine_, name);
    function.frame = share(info, nullptr);
    if (on_gpu()) function.there = allocate_for_host(info, device_);
  }

  void check_arity(size_t given, const std::string &name) const {
    Value arity = invoke(find_function(machine_, "get_function_arity"), {argument_of(name.c_str())},
                         "there is no function " + name);
    if (arity.view().v_int64 != static_cast<int64_t>(given))
      throw Error("the package does not fit together: its " + name + " takes another number of arrays");
  }

  void prepare(Function &function, size_t number) {
    std::string name = "frame" + std::to_string(number);
    begin(function, number, name);
    std::vector<TVMFFIAny> arguments = {(on_gpu() ? function.there : function.frame).view()};
    for (const auto *list : {&thresholds_, &others_}) {
      for (const Argument &each : *list) arguments.push_back((on_gpu() ? each.there : each.here).view());
    }
    for (const Value &each : params_) arguments.push_back(each.view());
    check_arity(arguments.size(), name);
    function.arguments = std::move(arguments);
  }

  // Return one of the arrays that a function returned.
  Value find_array(const Value &result, size_t index, const std::string &name) const {
    TVMFFIAny arguments[] = {result.view(), argument_of(static_cast<int64_t>(index))};
    bool single = info_.postprocess.empty() && info_.outputs.size() == 1 && count_lengths(info_) == 0;
    if (result.type() != (single ? kTVMFFITensor : kTVMFFIArray)) throw Error(name + " returns something else");
    Value found = single ? Value::retain(result.object(), kTVMFFITensor) : invoke(get_item_, arguments, 2, name);
    if (found.type() != kTVMFFITensor) throw Error(name + " returns something else");
    return found;
  }

  // Make the memory that the function's arrays are copied to. Only the code knows how long a result's arrays are.
  void make_room(Function &function, size_t number, const Value &result) {
    size_t arrays = info_.postprocess.empty() ? info_.outputs.size() + (count_lengths(info_) > 0 ? 1 : 0) : 0;
    for (const Postprocess &each : info_.postprocess) arrays += count_arrays(each);
    static_cast<void>(find_array(result, 0, function.name));
    if (result.type() == kTVMFFIArray) {
      Value count = invoke(find_global("ffi.ArraySize"), {result.view()}, function.name);
      if (count.view().v_int64 != static_cast<int64_t>(arrays))
        throw Error(function.name + " returns another number of arrays than mod.json says");
    }
    std::vector<int64_t> lengths;
    size_t index = 0;
    for (const Postprocess &each : info_.postprocess) {
      Value first = find_array(result, index, function.name);
      const DLTensor *found = TVMFFITensorGetDLTensorPtr(first.object());
      lengths.push_back(found->ndim == 0 ? 0 : found->shape[0]);
      index += count_arrays(each);
    }
    std::vector<Output> outputs = reader_.make_room(info_.frames[number], lengths, function.name);
    copies_.reserve(2 * outputs.size());
    function.outputs = std::move(outputs);
  }

  void set_thresholds(const FrameOptions &options) {
    const std::vector<Postprocess> &results = info_.postprocess;
    chosen_.resize(2 * results.size());
    choose_thresholds(results, 0, options.score, chosen_);
    choose_thresholds(results, 1, options.overlap, chosen_);
    if (thresholds_.size() < results.size()) {
      TensorInfo info{"the thresholds", {2}, "float32"};
      std::vector<Argument> made;
      for (size_t i = 0; i < results.size(); i++) made.push_back(make_argument(info, true));
      thresholds_ = std::move(made);
    }
    if (thresholds_ready_ && chosen_ == held_) return;
    thresholds_ready_ = false;
    for (size_t i = 0; i < results.size(); i++) {
      std::copy_n(&chosen_[2 * i], 2, static_cast<float *>(thresholds_[i].memory.get()));
      if (on_gpu()) copy(thresholds_[i].here, thresholds_[i].there);
    }
    held_ = chosen_;
    thresholds_ready_ = true;
  }

  // Let the functions read the inputs beside the picture.
  void set_others(const std::vector<Tensor> &inputs) {
    size_t count = info_.inputs.size() - 1;
    if (inputs.size() != count)
      throw Error(info_.model + " has " + std::to_string(count) + " inputs beside the picture, and " +
                  std::to_string(inputs.size()) + " are in FrameOptions::inputs");
    if (count == 0) return;
    size_t picture = picture_input(info_, *info_.preprocess);
    if (others_.empty()) {
      std::vector<Argument> made;
      for (size_t i = 0; i <= count; i++) {
        if (i != picture) made.push_back(make_argument(info_.inputs[i], false));
      }
      others_ = std::move(made);
    }
    for (size_t i = 0; i < count; i++) {
      const TensorInfo &wanted = info_.inputs[i < picture ? i : i + 1], &given = inputs[i].info();
      if (given.shape != wanted.shape || given.dtype != wanted.dtype || !inputs[i].on_host())
        throw Error("the input " + wanted.name + " of " + info_.model + " is " + wanted.dtype + " " +
                    show(wanted.shape) + " in the host's memory, got " + given.dtype + " " + show(given.shape));
      TVMFFITensorGetDLTensorPtr(others_[i].here.object())->data = inputs[i].data();
      if (on_gpu()) copy(others_[i].here, others_[i].there);
    }
  }

  Argument make_argument(const TensorInfo &info, bool with_memory) const {
    Argument made;
    if (with_memory) made.memory = allocate_aligned(info.bytes(), info.name);
    made.here = share(info, made.memory);
    if (on_gpu()) made.there = allocate_for_host(info, device_);
    return made;
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

  // Find the arrays of a result, and list them with the memory that they are copied to.
  void find_outputs(Function &function, const Value &result) {
    copies_.clear();
    for (size_t i = 0; i < function.outputs.size(); i++) {
      Output &output = function.outputs[i];
      output.found = find_array(result, i, function.name);
      check(output, function.name);
      copies_.push_back(output.found.view());
      copies_.push_back(argument_of(output.tensor.data()));
    }
  }

  // Copy the arrays of a result to the host. This waits for the device.
  void collect(Function &function, const Value &result) {
    const std::string &name = function.name;
    find_outputs(function, result);
    if (copy_together_.type() == kTVMFFIFunction) invoke(copy_together_, copies_.data(), copies_.size(), name);
    for (Output &output : function.outputs) {
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

  const Info &info_;
  const Value &machine_;
  const std::vector<Value> &params_;
  DLDevice device_;
  Value get_item_, copy_in_, copy_out_;
  Value copy_together_;  // of our Vulkan runtime, which waits once for all arrays; else none
  ResultReader reader_;
  std::vector<Function> functions_;   // by the frame's number
  std::vector<bool> prepared_;        // by the frame's number, whether prepare_input() was called
  std::shared_ptr<void> aligned_;     // for bytes at other addresses
  std::vector<Argument> thresholds_;  // of each result
  std::vector<float> chosen_, held_;
  bool thresholds_ready_ = false;
  std::vector<Argument> others_;  // the inputs beside the picture
  std::vector<TVMFFIAny> copies_;
  Value started_;             // what the function returned for the frame that was started
  size_t running_ = 0;        // its number
  bool is_fetching_ = false;  // whether its outputs are on their way to the host
};

}  // namespace tvmbuild::detail
