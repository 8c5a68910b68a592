#include "lane_copies.h"

#include "failure.h"
#include "ffi.h"
#include "name.h"

namespace tvmbuild {
namespace {

const DLTensor *read_tensor(const TVMFFIAny &value) {
  return value.type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(value.v_obj) : nullptr;
}

char *first_byte(const DLTensor &tensor) { return static_cast<char *>(tensor.data) + tensor.byte_offset; }

}  // namespace

size_t count_bytes(const DLTensor &tensor) {
  size_t size = (static_cast<size_t>(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
  for (int32_t axis = 0; axis < tensor.ndim; axis++) size *= static_cast<size_t>(tensor.shape[axis]);
  return size;
}

bool read_lane_copies(const TVMFFIAny *arguments, int32_t count, LaneDirection direction, LaneCopies &all) {
  int64_t handle = 0;
  if (count < 3 || count % 2 == 0 || !read_int(arguments[0], handle))
    return fail(TVMBUILD_TITLE ": copies in a lane take a stream and pairs of tensors");
  all.stream = reinterpret_cast<void *>(handle);
  for (int32_t index = 1; index < count; index += 2) {
    const DLTensor *from = read_tensor(arguments[index]), *to = read_tensor(arguments[index + 1]);
    bool is_address = direction == LaneDirection::OUT && arguments[index + 1].type_index == kTVMFFIOpaquePtr;
    if (from == nullptr || (to == nullptr && !is_address))
      return fail(TVMBUILD_TITLE ": copies in a lane take tensors");
    if (to != nullptr && count_bytes(*from) != count_bytes(*to))
      return fail(TVMBUILD_TITLE ": a tensor is copied to one of another size");
    all.device = (direction == LaneDirection::IN ? to : from)->device.device_id;
    char *target = is_address ? static_cast<char *>(arguments[index + 1].v_ptr) : first_byte(*to);
    all.copies.add({first_byte(*from), target, count_bytes(*from)});
  }
  return true;
}

}  // namespace tvmbuild
