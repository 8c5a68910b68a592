#include "lane.h"

#include "device.h"
#include "failure.h"
#include "ffi.h"
#include "lane_copies.h"
#include "memory.h"

namespace tvmbuild {
namespace {

// While it lives, this thread's copies run on another stream.
class OnStream {
 public:
  OnStream(const Device &device, CUstream stream) : device_(device), before_(current_stream(device)) {
    set_current_stream(device_, stream);
  }
  ~OnStream() { set_current_stream(device_, before_); }
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

 private:
  const Device &device_;
  CUstream before_;
};

bool copy_all_in(Device &device, CUstream stream, const List<LaneCopy> &copies) {
  {
    OnStream lane(device, stream);
    for (const LaneCopy &each : copies)
      if (!copy_to_device(device, each.from, reinterpret_cast<CUdeviceptr>(each.to), each.size)) return false;
  }
  return sync_streams(device, stream, current_stream(device));
}

bool copy_all_out(Device &device, CUstream stream, const List<LaneCopy> &copies) {
  if (!sync_streams(device, current_stream(device), stream)) return false;
  for (const LaneCopy &each : copies) {
    CUdeviceptr from = reinterpret_cast<CUdeviceptr>(each.from);
    if (each.size != 0 &&
        !check(device, device.cu->MemcpyDtoHAsync(each.to, from, each.size, stream), "copy from its memory"))
      return false;
  }
  return true;
}

}  // namespace

int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  LaneCopies all;
  if (!read_lane_copies(arguments, count, LaneDirection::IN, all)) return raise_failure();
  UsedDevice device = use_device(all.device);
  return device && copy_all_in(*device, static_cast<CUstream>(all.stream), all.copies) ? 0 : raise_failure();
}

int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  LaneCopies all;
  if (!read_lane_copies(arguments, count, LaneDirection::OUT, all)) return raise_failure();
  UsedDevice device = use_device(all.device);
  return device && copy_all_out(*device, static_cast<CUstream>(all.stream), all.copies) ? 0 : raise_failure();
}

}  // namespace tvmbuild
