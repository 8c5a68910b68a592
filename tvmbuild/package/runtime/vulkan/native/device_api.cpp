#include "basic_device_api.h"
#include "copies.h"
#include "failure.h"
#include "ffi.h"
#include "lock.h"
#include "runtime.h"

namespace tvmbuild {
namespace {

int queue_of(Device &device, void *stream) {
  return stream != nullptr ? static_cast<int>(static_cast<WorkQueue *>(stream) - device.work_queues)
                           : current_queue(device);
}

// Later work on the same memory comes later by itself; what waits for the target must wait for the source, too.
bool sync_streams(Device &device, void *source, void *target) {
  Lock lock(device.lock);
  int first = queue_of(device, source);
  if (!flush_queue(device, first)) return false;
  device.work_queues[queue_of(device, target)].last.reach(device.work_queues[first].last);
  return true;
}

class VulkanApi final : public BasicDeviceApi {
 public:
  using BasicDeviceApi::AllocDataSpace;

  void *AllocDataSpace(DLDevice device, size_t size, size_t, DLDataType) override {
    void *address = nullptr;
    Device *used = use_device(device.device_id);
    if (used == nullptr || !allocate(*used, size, MemoryUse::KERNELS, &address)) throw_failure();
    return address;
  }

  void FreeDataSpace(DLDevice device, void *address) override {
    if (Device *used = started_device(device.device_id)) release(*used, address);
  }

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

  void SyncStreamFromTo(DLDevice device, void *source, void *target) override {
    Device *used = started_device(device.device_id);
    if (used != nullptr && !sync_streams(*used, source, target)) throw_failure();
  }
};

VulkanApi api;

}  // namespace

bool copy_data(const char *from, char *to, size_t size, DLDevice source, DLDevice target) {
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

void *device_api() { return static_cast<DeviceApi *>(&api); }

}  // namespace tvmbuild
