#include "basic_device_api.h"

// TVM's own functions, which end in the virtual functions of the runtime.
extern "C" size_t tvm_data_size(tvmbuild::DeviceApi *, const DLTensor &, const void *) __asm__(
    "_ZN3tvm7runtime9DeviceAPI11GetDataSizeERK8DLTensorNS_3ffi8OptionalINS5_6StringEvEE");
extern "C" void *tvm_allocate(tvmbuild::DeviceApi *, DLDevice, int, const int64_t *, DLDataType, const void *) __asm__(
    "_ZN3tvm7runtime9DeviceAPI14AllocDataSpaceE8DLDeviceiPKl10DLDataTypeNS_3ffi8OptionalINS6_6StringEvEE");
extern "C" void tvm_copy(tvmbuild::DeviceApi *, DLTensor *, DLTensor *,
                         void *) __asm__("_ZN3tvm7runtime9DeviceAPI14CopyDataFromToEP8DLTensorS3_Pv");

namespace tvmbuild {

static thread_local int device_of_thread;

void BasicDeviceApi::SetDevice(DLDevice device) { device_of_thread = device.device_id; }

size_t BasicDeviceApi::GetDataSize(const DLTensor &tensor, const void *scope) {
  return tvm_data_size(this, tensor, scope);
}

void *BasicDeviceApi::AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type,
                                     const void *scope) {
  return tvm_allocate(this, device, dimensions, shape, type, scope);
}

void BasicDeviceApi::CopyDataFromTo(DLTensor *from, DLTensor *to, void *stream) { tvm_copy(this, from, to, stream); }

void *BasicDeviceApi::AllocWorkspace(DLDevice device, size_t size, DLDataType hint) {
  constexpr size_t alignment = 64;
  return AllocDataSpace(device, size, alignment, hint);
}

void BasicDeviceApi::FreeWorkspace(DLDevice device, void *address) { FreeDataSpace(device, address); }

int current_device() { return device_of_thread; }

}  // namespace tvmbuild
