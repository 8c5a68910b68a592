// Lanes: the copies of a call on a GPU, beside the kernels of other calls: runtime/lanes.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "device.h"

namespace tvmbuild::detail {

// The calls of a session on a GPU at the same time: inputs go up, kernels run, outputs come down.
constexpr size_t LANES = 3;

// The name of a function of tvmbuild's own runtime for a kind of GPU.
inline std::string name_own(DLDevice device, const char *function) {
  return std::string(device.device_type == kDLVulkan ? "tvmbuild_vulkan." : "tvmbuild_cuda.") + function;
}

inline bool has_lanes(DLDevice device) {
  bool is_known = device.device_type == kDLCUDA || device.device_type == kDLVulkan;
  return is_known && look_up(name_own(device, "copy_out")).type() == kTVMFFIFunction;
}

// A stream for the copies of one call at a time. The kernels of all calls stay on one stream, because they share the
// workspace.
class Lane {
 public:
  explicit Lane(DLDevice device)
      : device_(device),
        set_(find_global("runtime.Device_SetStream")),
        sync_(find_global("runtime.Device_StreamSyncFromTo")),
        copy_in_(find_global(name_own(device, "copy_in"))),
        copy_out_(find_global(name_own(device, "copy_out"))),
        free_(find_global("runtime.Device_StreamFree")) {
    stream_ = invoke(find_global("runtime.Device_StreamCreate"), {argument_of(device)}, "the card").view().v_int64;
  }
  ~Lane() {
    TVMFFIAny arguments[] = {argument_of(device_), argument_of(stream_)};
    Value result;
    if (TVMFFIFunctionCall(free_.object(), arguments, 2, result.any()) != 0) take_raised();
  }
  Lane(const Lane &) = delete;
  Lane &operator=(const Lane &) = delete;

  // Copy tensors of the host, each to the tensor of the device after it, and let the kernels that follow wait for it.
  void copy_in(std::vector<TVMFFIAny> pairs) const {
    if (pairs.empty()) return;
    pairs.insert(pairs.begin(), argument_of(stream_));
    invoke(copy_in_, std::move(pairs), "the inputs cannot be copied");
  }
  // Copy tensors of the device, each to the host's memory after it, when the kernels are done. Do not wait. On a CUDA
  // card this memory is page-locked.
  void copy_out(std::vector<TVMFFIAny> pairs) const {
    pairs.insert(pairs.begin(), argument_of(stream_));
    invoke(copy_out_, std::move(pairs), "the outputs cannot be copied");
  }

  // Let the kernels that follow wait for the lane's copies.
  void let_kernels_follow() const { sync(stream_, KERNELS); }
  // Let the lane's copies that follow wait for the kernels.
  void follow_kernels() const { sync(KERNELS, stream_); }

  // While it lives, the copies of this thread run in the lane; without one, with the kernels.
  class Copies {
   public:
    explicit Copies(const Lane *lane) : lane_(lane) {
      if (lane_ != nullptr) lane_->set(lane_->stream_);
    }
    ~Copies() {
      if (lane_ == nullptr) return;
      try {
        lane_->set(KERNELS);
      } catch (const Error &) {  // the card is lost, and the next call says so
      }
    }
    Copies(const Copies &) = delete;
    Copies &operator=(const Copies &) = delete;

   private:
    const Lane *lane_;
  };

 private:
  void set(int64_t stream) const {
    TVMFFIAny arguments[] = {argument_of(device_), argument_of(stream)};
    invoke(set_, arguments, 2, "the card");
  }
  void sync(int64_t from, int64_t to) const {
    TVMFFIAny arguments[] = {argument_of(device_), argument_of(from), argument_of(to)};
    invoke(sync_, arguments, 3, "the card");
  }

  DLDevice device_;
  Value set_, sync_, copy_in_, copy_out_, free_;
  int64_t stream_ = 0;
};

}  // namespace tvmbuild::detail
