// The functions of TVM's DeviceAPI that are the same for every runtime.
#pragma once
#include "tvm_classes.h"

namespace tvmbuild {

class BasicDeviceApi : public DeviceApi {
 public:
  void SetDevice(DLDevice device) final;
  void GetAttr(DLDevice device, int kind, TVMFFIAny *result) final;
  void GetTargetProperty(DLDevice device, const void *name, TVMFFIAny *result) final;
  size_t GetDataSize(const DLTensor &tensor, const void *scope) final;
  using DeviceApi::AllocDataSpace;
  void *AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type,
                       const void *scope) override;
  void CopyDataFromTo(DLTensor *from, DLTensor *to, void *stream) final;
  void CopyDataFromTo(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size, DLDevice source,
                      DLDevice target, DLDataType, void *) final;
  void *AllocWorkspace(DLDevice device, size_t size, DLDataType hint) final;
  void FreeWorkspace(DLDevice device, void *address) final;
  bool SupportsDevicePointerArithmeticsOnHost() final { return true; }
};

// The device on which this thread's kernels run.
int current_device();

}  // namespace tvmbuild
