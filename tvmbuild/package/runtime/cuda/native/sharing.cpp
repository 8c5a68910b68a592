#include "sharing.h"

#include "failure.h"
#include "ffi.h"
#include "memory.h"

namespace tvmbuild {
namespace {

const char *address_of(const DLTensor &tensor) { return static_cast<const char *>(tensor.data) + tensor.byte_offset; }

// The same memory, which the new tensor keeps alive. 0, or -1 with TVM's error set.
int relabel(TVMFFIObjectHandle tensor, DLDevice device, TVMFFIAny &result) {
  DLManagedTensor *managed = nullptr;
  if (TVMFFITensorToDLPack(tensor, &managed) != 0) return -1;
  managed->dl_tensor.device = device;
  TVMFFIObjectHandle made = nullptr;
  if (TVMFFITensorFromDLPack(managed, 1, 1, &made) != 0) {
    managed->deleter(managed);
    return -1;
  }
  result.type_index = kTVMFFITensor;
  result.v_obj = static_cast<TVMFFIObject *>(made);
  return 0;
}

}  // namespace

thread_local int OwnMemory::wishes;

int call_with_own_memory(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  if (count < 1 || arguments[0].type_index != kTVMFFIFunction) {
    fail("CUDA: call_with_own_memory takes a function and its arguments");
    return raise_failure();
  }
  OwnMemory own;
  return TVMFFIFunctionCall(arguments[0].v_obj, const_cast<TVMFFIAny *>(arguments + 1), count - 1, result);
}

int tell_sharing(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  int64_t index = 0;
  if (count != 1 || !read_int(arguments[0], index)) {
    fail("CUDA: shares_memory takes the number of a device");
    return raise_failure();
  }
  const CudaLibrary *library = open_cuda();
  if (library == nullptr) return raise_failure();
  *result = make_bool(shares_memory(*library, static_cast<int>(index)));
  return 0;
}

int share_tensor(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  if (count != 2 || arguments[0].type_index != kTVMFFITensor || arguments[1].type_index != kTVMFFIDevice) {
    fail("CUDA: share takes a tensor and a device");
    return raise_failure();
  }
  const DLTensor &tensor = *TVMFFITensorGetDLTensorPtr(arguments[0].v_obj);
  DLDevice wanted = arguments[1].v_device;
  bool is_for_host = wanted.device_type == kDLCPU, is_page_locked = tensor.device.device_type == kDLCUDAHost;
  UsedDevice device = use_device(is_for_host ? tensor.device.device_id : wanted.device_id);
  if (!device) return raise_failure();
  if (!(is_for_host && is_page_locked) && !is_shared(*device, address_of(tensor), count_bytes(tensor))) return 0;
  if (is_for_host && !check(*device, device->cu->StreamSynchronize(current_stream(*device)), "finish its work"))
    return raise_failure();
  return relabel(arguments[0].v_obj, wanted, *result);
}

}  // namespace tvmbuild
