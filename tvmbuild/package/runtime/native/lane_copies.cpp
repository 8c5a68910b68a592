#include "lane_copies.h"

#include "failure.h"
#include "ffi.h"
#include "name.h"

namespace tvmbuild {
namespace {

enum class LaneDirection { IN, OUT };

const DLTensor *read_tensor(const TVMFFIAny &value) {
  return value.type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(value.v_obj) : nullptr;
}

char *first_byte(const DLTensor &tensor) { return static_cast<char *>(tensor.data) + tensor.byte_offset; }

// Read (stream, from, to, …): tensors, or the host's address in the place of a tensor that outputs are copied to. False
// with the failure set.
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

}  // namespace

int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  LaneCopies all;
  return read_lane_copies(arguments, count, LaneDirection::IN, all) && copy_in_lane(all) ? 0 : raise_failure();
}

int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  LaneCopies all;
  return read_lane_copies(arguments, count, LaneDirection::OUT, all) && copy_out_lane(all) ? 0 : raise_failure();
}

}  // namespace tvmbuild
