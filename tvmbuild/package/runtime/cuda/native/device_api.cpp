#include "basic_device_api.h"
#include "failure.h"
#include "ffi.h"
#include "memory.h"
#include "runtime.h"
#include "sharing.h"

namespace tvmbuild {
namespace {

bool is_host(DLDevice device) { return device.device_type == kDLCPU || device.device_type == kDLCUDAHost; }

bool create_stream(int index, CUstream &stream) {
  UsedDevice device = use_device(index);
  return device && check(*device, device->cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "make a stream");
}

bool choose_stream(int index, CUstream stream) {
  UsedDevice device = use_device(index);
  if (device) set_current_stream(*device, stream);
  return static_cast<bool>(device);
}

// Wait for a stream. Null is this thread's, which is the default one unless it has set another.
bool wait_for_stream(int index, CUstream stream) {
  if (!is_started(index)) return true;
  UsedDevice device = use_device(index);
  if (!device) return false;
  CUstream waited = stream != nullptr ? stream : current_stream(*device);
  return check(*device, device->cu->StreamSynchronize(waited), "finish its work");
}

bool sync_streams_of(int index, CUstream source, CUstream target) {
  if (!is_started(index)) return true;
  UsedDevice device = use_device(index);
  return device && sync_streams(*device, source, target);
}

bool allocate(DLDevice device, size_t size, bool may_share, void *&address) {
  UsedDevice used = use_device(device.device_id);
  if (!used) return false;
  bool is_page_locked = device.device_type == kDLCUDAHost || (may_share && used->shares_memory);
  return is_page_locked ? allocate_page_locked(*used, size, &address) : allocate(*used, size, &address);
}

class CudaApi final : public BasicDeviceApi {
 public:
  // For tensors that a program makes, for example weights.
  void *AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type,
                       const void *scope) override {
    DLTensor form = {nullptr, device, dimensions, type, const_cast<int64_t *>(shape), nullptr, 0};
    return place(device, GetDataSize(form, scope), false);  // which refuses all scopes but the usual one
  }

  void *AllocDataSpace(DLDevice device, size_t size, size_t, DLDataType) override {
    return place(device, size, !OwnMemory::is_wanted());
  }

  void FreeDataSpace(DLDevice device, void *address) override {
    UsedDevice used = started_device(device.device_id);
    if (!used) return;
    if (device.device_type == kDLCUDAHost)
      release_page_locked(*used, address);
    else
      release(*used, address);
  }

  void *CreateStream(DLDevice device) override {
    CUstream stream = nullptr;
    if (!create_stream(device.device_id, stream)) throw_failure();
    return stream;
  }

  void FreeStream(DLDevice device, void *stream) override {
    UsedDevice used = started_device(device.device_id);
    if (!used || stream == nullptr) return;
    if (current_stream(*used) == stream) set_current_stream(*used, nullptr);
    used->cu->StreamDestroy(static_cast<CUstream>(stream));
  }

  void StreamSync(DLDevice device, void *stream) override {
    if (!wait_for_stream(device.device_id, static_cast<CUstream>(stream))) throw_failure();
  }

  void SetStream(DLDevice device, void *stream) override {
    if (!choose_stream(device.device_id, static_cast<CUstream>(stream))) throw_failure();
  }

  void *GetCurrentStream(DLDevice device) override {
    UsedDevice used = started_device(device.device_id);
    return used ? current_stream(*used) : nullptr;
  }

  void SyncStreamFromTo(DLDevice device, void *source, void *target) override {
    if (!sync_streams_of(device.device_id, static_cast<CUstream>(source), static_cast<CUstream>(target)))
      throw_failure();
  }

 private:
  static void *place(DLDevice device, size_t size, bool may_share) {
    void *address = nullptr;
    if (!allocate(device, size, may_share, address)) throw_failure();
    return address;
  }
};

CudaApi api;

}  // namespace

bool copy_data(const char *from, char *to, size_t size, DLDevice source, DLDevice target) {
  CUdeviceptr from_address = reinterpret_cast<CUdeviceptr>(from), to_address = reinterpret_cast<CUdeviceptr>(to);
  if (is_host(source) && is_host(target)) {
    memcpy(to, from, size);
    return true;
  }
  if ((!is_host(source) && source.device_type != kDLCUDA) || (!is_host(target) && target.device_type != kDLCUDA))
    return fail("CUDA: no copy between such devices");
  UsedDevice device = use_device(is_host(source) ? target.device_id : source.device_id);
  if (!device) return false;
  if (is_host(source)) return copy_to_device(*device, from, to_address, size);
  if (is_host(target)) return copy_to_host(*device, from_address, to, size);
  if (target.device_id == source.device_id) return copy_within(*device, from_address, to_address, size);
  UsedDevice other = use_device(target.device_id);
  return other && copy_between(*device, from_address, *other, to_address, size);
}

bool sync_streams(Device &device, CUstream source, CUstream target) {
  const CudaFunctions &cu = *device.cu;
  CUevent event = nullptr;
  if (!check(device, cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "make an event")) return false;
  bool is_done = check(device, cu.EventRecord(event, source), "record an event") &&
                 check(device, cu.StreamWaitEvent(target, event, 0), "wait for an event");
  cu.EventDestroy(event);
  return is_done;
}

void *device_api() { return static_cast<DeviceApi *>(&api); }

}  // namespace tvmbuild
