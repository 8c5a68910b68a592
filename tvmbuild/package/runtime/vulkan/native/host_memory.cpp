#include "host_memory.h"

#include "copies.h"
#include "failure.h"
#include "ffi.h"

namespace tvmbuild {
namespace {

struct HostTensor : OnHeap {
  DLManagedTensor managed;
  List<int64_t> shape;
  Device *device;
};

void free_host_tensor(DLManagedTensor *managed) {
  HostTensor *tensor = static_cast<HostTensor *>(managed->manager_ctx);
  release(*tensor->device, managed->dl_tensor.data);
  delete tensor;
}

}  // namespace

int allocate_host(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  int64_t index = 0;
  if (count != 2 || !read_int(arguments[0], index) || arguments[1].type_index != kTVMFFITensor) {
    fail("Vulkan: allocate_host takes the number of a device and a tensor");
    return raise_failure();
  }
  const DLTensor &like = *TVMFFITensorGetDLTensorPtr(arguments[1].v_obj);
  Device *device = use_device(static_cast<int>(index));
  void *address = nullptr;
  if (device == nullptr || !allocate(*device, count_bytes(like), MemoryUse::STAGING, &address)) return raise_failure();
  HostTensor *tensor = new HostTensor();
  for (int32_t axis = 0; axis < like.ndim; axis++) tensor->shape.add(like.shape[axis]);
  tensor->device = device;
  tensor->managed.dl_tensor = {address, {kDLCPU, 0}, like.ndim, like.dtype, tensor->shape.data(), nullptr, 0};
  tensor->managed.manager_ctx = tensor;
  tensor->managed.deleter = free_host_tensor;
  TVMFFIObjectHandle made = nullptr;
  if (TVMFFITensorFromDLPack(&tensor->managed, 1, 1, &made) != 0) {
    free_host_tensor(&tensor->managed);
    return -1;
  }
  result->type_index = kTVMFFITensor;
  result->v_obj = static_cast<TVMFFIObject *>(made);
  return 0;
}

}  // namespace tvmbuild
