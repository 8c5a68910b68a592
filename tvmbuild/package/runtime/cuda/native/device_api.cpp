#include "basic_device_api.h"
#include "failure.h"
#include "ffi.h"
#include "memory.h"
#include "runtime.h"

namespace tvmbuild {
namespace {

bool is_host(DLDevice device) { return device.device_type == kDLCPU || device.device_type == kDLCUDAHost; }

// Let the work that follows on one stream wait for the work that is on the other now.
bool sync_streams(Device &device, CUstream source, CUstream target) {
  const CudaFunctions &cu = *device.cu;
  CUevent event = nullptr;
  if (!check(device, cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "make an event")) return false;
  bool is_done = check(device, cu.EventRecord(event, source), "record an event") &&
                 check(device, cu.StreamWaitEvent(target, event, 0), "wait for an event");
  cu.EventDestroy(event);
  return is_done;
}

class CudaApi final : public BasicDeviceApi {
 public:
  using BasicDeviceApi::AllocDataSpace;

  void *AllocDataSpace(DLDevice device, size_t size, size_t, DLDataType) override {
    void *address = nullptr;
    Device *used = use_device(device.device_id);
    bool is_done = used != nullptr && (device.device_type == kDLCUDAHost ? allocate_page_locked(*used, size, &address)
                                                                         : allocate(*used, size, &address));
    if (!is_done) throw_failure();
    return address;
  }

  void FreeDataSpace(DLDevice device, void *address) override {
    Device *used = started_device(device.device_id);
    if (used == nullptr) return;
    if (device.device_type == kDLCUDAHost)
      release_page_locked(*used, address);
    else
      release(*used, address);
  }

  void *CreateStream(DLDevice device) override {
    Device *used = use_device(device.device_id);
    CUstream stream = nullptr;
    if (used == nullptr || !check(*used, used->cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "make a stream"))
      throw_failure();
    return stream;
  }

  void FreeStream(DLDevice device, void *stream) override {
    Device *used = started_device(device.device_id);
    if (used == nullptr || stream == nullptr) return;
    if (current_stream(*used) == stream) set_current_stream(*used, nullptr);
    used->cu->StreamDestroy(static_cast<CUstream>(stream));
  }

  // Without a stream: this thread's, which is the default one unless it has set another.
  void StreamSync(DLDevice device, void *stream) override {
    Device *used = started_device(device.device_id);
    if (used == nullptr) return;
    CUstream waited = stream != nullptr ? static_cast<CUstream>(stream) : current_stream(*used);
    if (!check_alive(*used) || !check(*used, used->cu->StreamSynchronize(waited), "finish its work")) throw_failure();
  }

  void SetStream(DLDevice device, void *stream) override {
    Device *used = use_device(device.device_id);
    if (used == nullptr) throw_failure();
    set_current_stream(*used, static_cast<CUstream>(stream));
  }

  void *GetCurrentStream(DLDevice device) override {
    Device *used = started_device(device.device_id);
    return used != nullptr ? current_stream(*used) : nullptr;
  }

  void SyncStreamFromTo(DLDevice device, void *source, void *target) override {
    Device *used = started_device(device.device_id);
    if (used != nullptr && !sync_streams(*used, static_cast<CUstream>(source), static_cast<CUstream>(target)))
      throw_failure();
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
  Device *device = use_device(is_host(source) ? target.device_id : source.device_id);
  if (device == nullptr) return false;
  if (is_host(source)) return copy_to_device(*device, from, to_address, size);
  if (is_host(target)) return copy_to_host(*device, from_address, to, size);
  if (target.device_id == source.device_id) return copy_within(*device, from_address, to_address, size);
  Device *other = use_device(target.device_id);
  return other != nullptr && copy_between(*device, from_address, *other, to_address, size);
}

void *device_api() { return static_cast<DeviceApi *>(&api); }

}  // namespace tvmbuild
