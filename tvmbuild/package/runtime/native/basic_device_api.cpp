#include "basic_device_api.h"

#include "ffi.h"
#include "runtime.h"

// TVM's own functions, which end in the virtual functions of the runtime.
extern "C" size_t tvm_data_size(tvmbuild::DeviceApi *, const DLTensor &, const void *) __asm__(
    "_ZN3tvm7runtime9DeviceAPI11GetDataSizeERK8DLTensorNS_3ffi8OptionalINS5_6StringEvEE");
extern "C" void *tvm_allocate(tvmbuild::DeviceApi *, DLDevice, int, const int64_t *, DLDataType, const void *) __asm__(
    "_ZN3tvm7runtime9DeviceAPI14AllocDataSpaceE8DLDeviceiPKl10DLDataTypeNS_3ffi8OptionalINS6_6StringEvEE");
extern "C" void tvm_copy(tvmbuild::DeviceApi *, DLTensor *, DLTensor *,
                         void *) __asm__("_ZN3tvm7runtime9DeviceAPI14CopyDataFromToEP8DLTensorS3_Pv");

namespace tvmbuild {

// The beginning of libstdc++'s std::string.
struct StandardString {
  const char *data;
  size_t size;
};

static thread_local int device_of_thread;

void BasicDeviceApi::SetDevice(DLDevice device) { device_of_thread = device.device_id; }

void BasicDeviceApi::GetAttr(DLDevice device, int kind, TVMFFIAny *result) {
  if (!read_attribute(device.device_id, kind, *result)) throw_failure();
}

void BasicDeviceApi::GetTargetProperty(DLDevice device, const void *name, TVMFFIAny *result) {
  const StandardString *text = static_cast<const StandardString *>(name);
  if (!read_target_property(device.device_id, text->data, text->size, *result)) throw_failure();
}

size_t BasicDeviceApi::GetDataSize(const DLTensor &tensor, const void *scope) {
  return tvm_data_size(this, tensor, scope);
}

void *BasicDeviceApi::AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type,
                                     const void *scope) {
  return tvm_allocate(this, device, dimensions, shape, type, scope);
}

void BasicDeviceApi::CopyDataFromTo(DLTensor *from, DLTensor *to, void *stream) { tvm_copy(this, from, to, stream); }

void BasicDeviceApi::CopyDataFromTo(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size,
                                    DLDevice source, DLDevice target, DLDataType, void *) {
  const char *begin = static_cast<const char *>(from) + from_offset;
  if (!copy_data(begin, static_cast<char *>(to) + to_offset, size, source, target)) throw_failure();
}

void *BasicDeviceApi::AllocWorkspace(DLDevice device, size_t size, DLDataType hint) {
  constexpr size_t alignment = 64;
  return AllocDataSpace(device, size, alignment, hint);
}

void BasicDeviceApi::FreeWorkspace(DLDevice device, void *address) { FreeDataSpace(device, address); }

int current_device() { return device_of_thread; }

}  // namespace tvmbuild
