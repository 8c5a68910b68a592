#include "lane.h"

#include "device.h"
#include "failure.h"
#include "ffi.h"
#include "memory.h"

namespace tvmbuild {
namespace {

// A tensor's bytes.
struct Place {
  DLDevice device;
  char *first;
  size_t size;
};

bool read_tensor(const TVMFFIAny &value, Place &place) {
  if (value.type_index != kTVMFFITensor) return fail("CUDA: copies in a lane take tensors");
  const DLTensor &tensor = *TVMFFITensorGetDLTensorPtr(value.v_obj);
  place = {tensor.device, static_cast<char *>(tensor.data) + tensor.byte_offset, count_bytes(tensor)};
  return true;
}

bool read_pair(const TVMFFIAny *arguments, Place &from, Place &to) {
  if (!read_tensor(arguments[0], from) || !read_tensor(arguments[1], to)) return false;
  return from.size == to.size || fail("CUDA: a tensor is copied to one of another size");
}

bool read_stream(const TVMFFIAny *arguments, int32_t count, CUstream &stream) {
  int64_t handle = 0;
  if (count < 3 || count % 2 == 0 || !read_int(arguments[0], handle))
    return fail("CUDA: copies in a lane take a stream and pairs of tensors");
  stream = reinterpret_cast<CUstream>(handle);
  return true;
}

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

bool copy_all_in(CUstream stream, const TVMFFIAny *arguments, int32_t count) {
  Place from, to;
  if (!read_pair(arguments, from, to)) return false;
  UsedDevice device = use_device(to.device.device_id);
  if (!device) return false;
  {
    OnStream lane(*device, stream);
    for (int32_t index = 0; index < count; index += 2)
      if (!read_pair(arguments + index, from, to) ||
          !copy_to_device(*device, from.first, reinterpret_cast<CUdeviceptr>(to.first), to.size))
        return false;
  }
  return sync_streams(*device, stream, current_stream(*device));
}

bool copy_all_out(CUstream stream, const TVMFFIAny *arguments, int32_t count) {
  Place from, to;
  if (!read_pair(arguments, from, to)) return false;
  UsedDevice device = use_device(from.device.device_id);
  if (!device || !sync_streams(*device, current_stream(*device), stream)) return false;
  for (int32_t index = 0; index < count; index += 2) {
    if (!read_pair(arguments + index, from, to)) return false;
    if (to.size != 0 &&
        !check(*device,
               device->cu->MemcpyDtoHAsync(to.first, reinterpret_cast<CUdeviceptr>(from.first), to.size, stream),
               "copy from its memory"))
      return false;
  }
  return true;
}

}  // namespace

int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  CUstream stream = nullptr;
  return read_stream(arguments, count, stream) && copy_all_in(stream, arguments + 1, count - 1) ? 0 : raise_failure();
}

int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  CUstream stream = nullptr;
  return read_stream(arguments, count, stream) && copy_all_out(stream, arguments + 1, count - 1) ? 0 : raise_failure();
}

}  // namespace tvmbuild
