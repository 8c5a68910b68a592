// The functions of TVM's DeviceAPI that are the same for every runtime.
#pragma once
#include "tvm_classes.h"

namespace tvmbuild {

// The beginning of libstdc++'s std::string.
struct StandardString {
  const char *data;
  size_t size;
};

class BasicDeviceApi : public DeviceApi {
 public:
  void SetDevice(DLDevice device) final;
  size_t GetDataSize(const DLTensor &tensor, const void *scope) final;
  using DeviceApi::AllocDataSpace;
  void *AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type, const void *scope) final;
  using DeviceApi::CopyDataFromTo;
  void CopyDataFromTo(DLTensor *from, DLTensor *to, void *stream) final;
  void *AllocWorkspace(DLDevice device, size_t size, DLDataType hint) final;
  void FreeWorkspace(DLDevice device, void *address) final;
  bool SupportsDevicePointerArithmeticsOnHost() final { return true; }
};

// The device on which this thread's kernels run.
int current_device();

}  // namespace tvmbuild
