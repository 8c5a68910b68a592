// A card that is in use. Its primary context is the one that PyTorch, CuPy and CUDA's own runtime use in this process.
#pragma once

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
  int major, minor;  // compute capability
  bool is_integrated;
  bool is_lost;
  char loss[512];  // why
};

// The device of an index, started if it is not yet, with its context current in this thread. Null with the failure set.
Device *use_device(int index);
// The same, null if nothing has started it.
Device *started_device(int index);

// False with the failure set if the call failed. `what` completes "CUDA: the card could not …". After an error that
// ends the context, every later call fails with its reason.
bool check(Device &device, CUresult result, const char *what);
bool check_alive(const Device &device);

// The stream of this thread: what TVM, or tvm_ffi.use_raw_stream, has set for the device.
CUstream current_stream(const Device &device);
void set_current_stream(const Device &device, CUstream stream);

}  // namespace tvmbuild
