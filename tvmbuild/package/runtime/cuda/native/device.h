// A card that is in use. Its primary context is the one that PyTorch, CuPy and CUDA's own runtime use in this process.
#pragma once

#include <pthread.h>

#include "cuda_library.h"
#include "list.h"

namespace tvmbuild {

constexpr int MAX_DEVICES = 16;

struct Device : OnHeap {
  const CudaFunctions *cu;
  int index;
  CUdevice handle;
  CUcontext context;
  char name[256];
  int major, minor;           // compute capability
  bool shares_memory;         // an integrated card, whose kernels read and write page-locked memory in place
  pthread_rwlock_t captures;  // each holds it for reading
  bool is_lost;
  char loss[512];  // why
};

// A device whose context is current in this thread while this lives; afterwards the one before it is current again,
// because another library of the thread, for example PyTorch, finds its own device by it. A thread that had none keeps
// the context of card 0, as CUDA's own runtime does. False if the device cannot be used.
class UsedDevice {
 public:
  explicit UsedDevice(Device *device);
  ~UsedDevice();
  UsedDevice(const UsedDevice &) = delete;
  UsedDevice &operator=(const UsedDevice &) = delete;
  explicit operator bool() const { return device_ != nullptr; }
  Device &operator*() const { return *device_; }
  Device *operator->() const { return device_; }

 private:
  Device *device_;
  CUcontext before_ = nullptr;
  bool is_changed_ = false;
};

// The device of an index, started if it is not yet. False with the failure set.
UsedDevice use_device(int index);
// The same for a device that something has started, to release what is on it.
UsedDevice started_device(int index);
bool is_started(int index);

// Whether a device's kernels use page-locked memory in place. It needs no started device.
bool shares_memory(const CudaLibrary &library, int index);

// False with the failure set if the call failed. `what` completes "CUDA: the card could not …". After an error that
// ends the context, every later call fails with its reason.
bool check(Device &device, CUresult result, const char *what);
bool check_alive(const Device &device);

// The stream of this thread: what TVM, or tvm_ffi.use_raw_stream, has set for the device.
CUstream current_stream(const Device &device);
void set_current_stream(const Device &device, CUstream stream);
// Let the work that follows on one stream wait for the work that is on the other now.
bool sync_streams(Device &device, CUstream source, CUstream target);

}  // namespace tvmbuild
