#include "lane.h"

#include "copies.h"
#include "failure.h"
#include "ffi.h"
#include "lane_copies.h"
#include "lock.h"

namespace tvmbuild {
namespace {

// While it lives, this thread's copies belong to another stream.
class OnStream {
 public:
  OnStream(Device &device, WorkQueue *stream) : device_(device), before_(current_stream(device)) {
    set_current_stream(device_, stream);
  }
  ~OnStream() { set_current_stream(device_, before_); }
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

 private:
  Device &device_;
  WorkQueue *before_;
};

bool copy_all_in(Device &device, WorkQueue *stream, const List<LaneCopy> &copies) {
  OnStream lane(device, stream);
  for (const LaneCopy &each : copies)
    if (!copy_to_device(device, each.from, reinterpret_cast<uint64_t>(each.to), each.size)) return false;
  Lock lock(device.lock);
  return flush_queue(device, current_queue(device));  // the device may begin
}

bool copy_all_out(Device &device, WorkQueue *stream, const List<LaneCopy> &copies) {
  if (stream == nullptr) return fail("Vulkan: outputs are copied on a stream of their own");
  List<HostCopy> all;
  for (const LaneCopy &each : copies)
    if (each.size > 0) all.add({reinterpret_cast<uint64_t>(each.from), each.to, each.size});
  return begin_copies_to_host(device, stream, all);
}

}  // namespace

int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  LaneCopies all;
  if (!read_lane_copies(arguments, count, LaneDirection::IN, all)) return raise_failure();
  Device *device = use_device(all.device);
  bool is_done = device != nullptr && copy_all_in(*device, static_cast<WorkQueue *>(all.stream), all.copies);
  return is_done ? 0 : raise_failure();
}

int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  LaneCopies all;
  if (!read_lane_copies(arguments, count, LaneDirection::OUT, all)) return raise_failure();
  Device *device = use_device(all.device);
  bool is_done = device != nullptr && copy_all_out(*device, static_cast<WorkQueue *>(all.stream), all.copies);
  return is_done ? 0 : raise_failure();
}

}  // namespace tvmbuild
