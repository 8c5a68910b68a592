#include "device_api.h"

#include "attributes.h"
#include "copies.h"
#include "failure.h"
#include "ffi.h"
#include "lock.h"
#include "tvm_classes.h"

// TVM's own functions, which end in the virtual functions below.
extern "C" size_t tvm_data_size(tvmbuild::DeviceApi *, const DLTensor &, const void *) __asm__(
    "_ZN3tvm7runtime9DeviceAPI11GetDataSizeERK8DLTensorNS_3ffi8OptionalINS5_6StringEvEE");
extern "C" void *tvm_allocate(tvmbuild::DeviceApi *, DLDevice, int, const int64_t *, DLDataType, const void *) __asm__(
    "_ZN3tvm7runtime9DeviceAPI14AllocDataSpaceE8DLDeviceiPKl10DLDataTypeNS_3ffi8OptionalINS6_6StringEvEE");
extern "C" void tvm_copy(tvmbuild::DeviceApi *, DLTensor *, DLTensor *,
                         void *) __asm__("_ZN3tvm7runtime9DeviceAPI14CopyDataFromToEP8DLTensorS3_Pv");

namespace tvmbuild {
namespace {

thread_local int device_of_thread;

// The beginning of libstdc++'s std::string.
struct StandardString {
  const char *data;
  size_t size;
};

bool copy(const char *from, char *to, size_t size, DLDevice source, DLDevice target) {
  if (source.device_type == kDLCPU && target.device_type == kDLVulkan) {
    Device *device = use_device(target.device_id);
    return device != nullptr && copy_to_device(*device, from, reinterpret_cast<uint64_t>(to), size);
  }
  Device *device = source.device_type == kDLVulkan ? use_device(source.device_id) : nullptr;
  if (device == nullptr) return source.device_type == kDLVulkan ? false : fail("Vulkan: no copy between such devices");
  uint64_t address = reinterpret_cast<uint64_t>(from);
  if (target.device_type == kDLCPU) return copy_to_host(*device, address, to, size);
  if (target.device_type != kDLVulkan) return fail("Vulkan: no copy between such devices");
  if (target.device_id == source.device_id) return copy_within(*device, address, reinterpret_cast<uint64_t>(to), size);
  Device *other = use_device(target.device_id);
  return other != nullptr && copy_between(*device, address, *other, reinterpret_cast<uint64_t>(to), size);
}

bool sync_streams(Device &device, void *source) {
  Lock lock(device.lock);
  WorkQueue *stream = static_cast<WorkQueue *>(source);
  int queue = stream != nullptr ? static_cast<int>(stream - device.work_queues) : current_queue(device);
  return flush_queue(device, queue);  // later submissions run later
}

class VulkanApi final : public DeviceApi {
 public:
  void SetDevice(DLDevice device) override { device_of_thread = device.device_id; }

  void GetAttr(DLDevice device, int kind, TVMFFIAny *result) override {
    if (!read_attribute(device.device_id, kind, *result)) throw_failure();
  }

  size_t GetDataSize(const DLTensor &tensor, const void *scope) override { return tvm_data_size(this, tensor, scope); }

  void GetTargetProperty(DLDevice device, const void *name, TVMFFIAny *result) override {
    const StandardString *text = static_cast<const StandardString *>(name);
    if (!read_target_property(device.device_id, text->data, text->size, *result)) throw_failure();
  }

  void *AllocDataSpace(DLDevice device, size_t size, size_t, DLDataType) override {
    void *address = nullptr;
    Device *used = use_device(device.device_id);
    if (used == nullptr || !allocate(*used, size, &address)) throw_failure();
    return address;
  }

  void *AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type,
                       const void *scope) override {
    return tvm_allocate(this, device, dimensions, shape, type, scope);
  }

  void FreeDataSpace(DLDevice device, void *address) override {
    if (Device *used = started_device(device.device_id)) release(*used, address);
  }

  void CopyDataFromTo(DLTensor *from, DLTensor *to, void *stream) override { tvm_copy(this, from, to, stream); }

  void *CreateStream(DLDevice device) override {
    Device *used = use_device(device.device_id);
    if (used == nullptr) throw_failure();
    Lock lock(used->lock);
    return create_stream(*used);
  }

  void FreeStream(DLDevice device, void *stream) override {
    Device *used = started_device(device.device_id);
    if (used == nullptr || stream == nullptr) return;
    Lock lock(used->lock);
    free_stream(*used, static_cast<WorkQueue *>(stream));
  }

  void StreamSync(DLDevice device, void *stream) override {
    Device *used = started_device(device.device_id);
    if (used != nullptr && !synchronize(*used, static_cast<WorkQueue *>(stream))) throw_failure();
  }

  void SetStream(DLDevice device, void *stream) override {
    Device *used = use_device(device.device_id);
    if (used == nullptr) throw_failure();
    set_current_stream(*used, static_cast<WorkQueue *>(stream));
  }

  void *GetCurrentStream(DLDevice device) override {
    Device *used = started_device(device.device_id);
    return used != nullptr ? current_stream(*used) : nullptr;
  }

  void SyncStreamFromTo(DLDevice device, void *source, void *) override {
    Device *used = started_device(device.device_id);
    if (used != nullptr && !sync_streams(*used, source)) throw_failure();
  }

  void *AllocWorkspace(DLDevice device, size_t size, DLDataType hint) override {
    return AllocDataSpace(device, size, 64, hint);
  }

  void FreeWorkspace(DLDevice device, void *address) override { FreeDataSpace(device, address); }

  bool SupportsDevicePointerArithmeticsOnHost() override { return true; }

  void CopyDataFromTo(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size, DLDevice source,
                      DLDevice target, DLDataType, void *) override {
    if (!copy(static_cast<const char *>(from) + from_offset, static_cast<char *>(to) + to_offset, size, source, target))
      throw_failure();
  }
};

VulkanApi api;

}  // namespace

void *device_api() { return static_cast<DeviceApi *>(&api); }

int current_device() { return device_of_thread; }

}  // namespace tvmbuild
