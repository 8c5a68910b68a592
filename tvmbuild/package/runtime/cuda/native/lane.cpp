#include "device.h"
#include "failure.h"
#include "lane_copies.h"
#include "memory.h"

namespace tvmbuild {

bool copy_in_lane(const LaneCopies &all) {
  UsedDevice device = use_device(all.device);
  if (!device) return false;
  CUstream stream = static_cast<CUstream>(all.stream);
  {
    OnStream lane(*device, stream);
    for (const LaneCopy &each : all.copies)
      if (!copy_to_device(*device, each.from, reinterpret_cast<CUdeviceptr>(each.to), each.size)) return false;
  }
  return sync_streams(*device, stream, current_stream(*device));
}

bool copy_out_lane(const LaneCopies &all) {
  UsedDevice device = use_device(all.device);
  if (!device) return false;
  CUstream stream = static_cast<CUstream>(all.stream);
  if (!sync_streams(*device, current_stream(*device), stream)) return false;
  for (const LaneCopy &each : all.copies) {
    CUdeviceptr from = reinterpret_cast<CUdeviceptr>(each.from);
    if (each.size != 0 &&
        !check(*device, device->cu->MemcpyDtoHAsync(each.to, from, each.size, stream), "copy from its memory"))
      return false;
  }
  return true;
}

}  // namespace tvmbuild
