#include "device.h"

#include <stdio.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "failure.h"
#include "left_out.h"
#include "lock.h"

namespace tvmbuild {
namespace {

pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
Device *started[MAX_DEVICES];

bool describe(Device &device) {
  const CudaFunctions &cu = *device.cu;
  return check(device, cu.DeviceGet(&device.handle, device.index), "be found") &&
         check(device, cu.DeviceGetName(device.name, sizeof(device.name) - 1, device.handle), "tell its name") &&
         check(device,
               cu.DeviceGetAttribute(&device.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device.handle),
               "tell its version") &&
         check(device,
               cu.DeviceGetAttribute(&device.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device.handle),
               "tell its version");
}

Device *find_started(int index) {
  return index >= 0 && index < MAX_DEVICES ? __atomic_load_n(&started[index], __ATOMIC_ACQUIRE) : nullptr;
}

Device *start(int index) {
  const CudaLibrary *library = open_cuda();
  if (library == nullptr) return nullptr;
  if (index < 0 || index >= library->devices || index >= MAX_DEVICES)
    return fail("CUDA: there is no device %d; the driver shows %d", index, library->devices), nullptr;
  Device *device = new Device();
  device->cu = &library->cu;
  device->index = index;
  pthread_rwlock_init(&device->captures, nullptr);
  snprintf(device->name, sizeof(device->name), "device %d", index);
  device->shares_memory = shares_memory(*library, index);
  if (describe(*device) &&
      check(*device, device->cu->DevicePrimaryCtxRetain(&device->context, device->handle), "be started"))
    return device;
  delete device;
  return nullptr;
}

// An error after which the driver refuses every call of the context.
bool ends_context(CUresult result) {
  return result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
         result == CUDA_ERROR_CONTAINED || result == CUDA_ERROR_ILLEGAL_ADDRESS ||
         result == CUDA_ERROR_LAUNCH_TIMEOUT || result == CUDA_ERROR_ASSERT ||
         (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED) ||
         result == CUDA_ERROR_UNKNOWN;
}

}  // namespace

bool shares_memory(const CudaLibrary &library, int index) {
  CUdevice device = 0;
  int is_integrated = 0, has_one_address = 0;
  return !is_left_out(LEFT_OUT, UNIFIED_MEMORY) && library.cu.DeviceGet(&device, index) == CUDA_SUCCESS &&
         library.cu.DeviceGetAttribute(&is_integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device) == CUDA_SUCCESS &&
         library.cu.DeviceGetAttribute(&has_one_address, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device) ==
             CUDA_SUCCESS &&
         is_integrated != 0 && has_one_address != 0;
}

UsedDevice::UsedDevice(Device *device) : device_(device) {
  if (device == nullptr) return;
  const CudaFunctions &cu = *device->cu;
  if (cu.CtxGetCurrent(&before_) == CUDA_SUCCESS && before_ == device->context) return;
  is_changed_ = check(*device, cu.CtxSetCurrent(device->context), "be used in this thread");
  if (!is_changed_) device_ = nullptr;
}

UsedDevice::~UsedDevice() {
  if (is_changed_ && (before_ != nullptr || device_->index != 0)) device_->cu->CtxSetCurrent(before_);
}

bool is_started(int index) { return find_started(index) != nullptr; }

UsedDevice started_device(int index) { return UsedDevice(find_started(index)); }

UsedDevice use_device(int index) {
  Device *device = find_started(index);
  if (device == nullptr) {
    Lock lock(starting);
    device = find_started(index);
    if (device == nullptr) device = start(index);
    if (device != nullptr) __atomic_store_n(&started[index], device, __ATOMIC_RELEASE);
  }
  return UsedDevice(device != nullptr && check_alive(*device) ? device : nullptr);
}

bool check(Device &device, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return true;
  const char *said = describe_result(*open_cuda(), result);
  if (!ends_context(result)) return fail("CUDA: %s could not %s: %s", device.name, what, said);
  if (!__atomic_exchange_n(&device.is_lost, true, __ATOMIC_ACQ_REL))
    snprintf(device.loss, sizeof(device.loss), "%s", said);
  return fail("CUDA: %s was lost when it should %s: %s; the process must start again", device.name, what, said);
}

bool check_alive(const Device &device) {
  if (!__atomic_load_n(&device.is_lost, __ATOMIC_ACQUIRE)) return true;
  return fail("CUDA: %s was lost earlier: %s; the process must start again", device.name, device.loss);
}

CUstream current_stream(const Device &device) {
  return static_cast<CUstream>(TVMFFIEnvGetStream(kDLCUDA, device.index));
}

void set_current_stream(const Device &device, CUstream stream) {
  TVMFFIEnvSetStream(kDLCUDA, device.index, stream, nullptr);
}

}  // namespace tvmbuild
