#include "copies.h"
#include "failure.h"
#include "lane_copies.h"
#include "lock.h"

namespace tvmbuild {

bool copy_in_lane(const LaneCopies &all) {
  Device *device = use_device(all.device);
  if (device == nullptr) return false;
  OnStream lane(*device, static_cast<WorkQueue *>(all.stream));
  for (const LaneCopy &each : all.copies)
    if (!copy_from_host(*device, each.from, reinterpret_cast<uint64_t>(each.to), each.size)) return false;
  Lock lock(device->lock);
  return flush_queue(*device, current_queue(*device));  // the device may begin
}

bool copy_out_lane(const LaneCopies &all) {
  Device *device = use_device(all.device);
  if (device == nullptr) return false;
  if (all.stream == nullptr) return fail("Vulkan: outputs are copied on a stream of their own");
  List<HostCopy> copies;
  for (const LaneCopy &each : all.copies)
    if (each.size > 0) copies.add({reinterpret_cast<uint64_t>(each.from), each.to, each.size});
  return begin_copies_to_host(*device, static_cast<WorkQueue *>(all.stream), copies);
}

}  // namespace tvmbuild
