// The kernels of a module, and their code on each device.
#pragma once
#include "device.h"

namespace tvmbuild {

constexpr uint32_t MAX_ARGUMENTS = 256, MAX_EXTENTS = 8;

enum ArgumentKind : uint8_t { POINTER, INTEGER, FLOAT32, FLOAT64 };

// What a launch's extents, the numbers behind the arguments, mean.
enum ExtentKind : uint8_t { GRID_X, GRID_Y, GRID_Z, BLOCK_X, BLOCK_Y, BLOCK_Z, SHARED_BYTES };

struct Kernel {
  char name[256];
  uint32_t arguments, extents;
  ArgumentKind kinds[MAX_ARGUMENTS];
  ExtentKind meanings[MAX_EXTENTS];
  bool is_dependent, is_cooperative;
  CUfunction function[MAX_DEVICES];
  int shared_bytes[MAX_DEVICES];  // dynamic shared memory that the kernel was allowed beyond the usual
};

struct Image {
  const char *format;  // "cubin", "ptx" or "fatbin"
  const void *code;
  size_t size;
  const void *ptx;  // for cards that the code does not fit, or null
  CUmodule on[MAX_DEVICES];
};

// Load the image and all its kernels on a device, unless that was done. False with the failure set.
bool prepare_kernels(Device &device, Image &image, List<Kernel> &kernels);
void release_kernels(Device &device, Image &image);

// Launch a prepared kernel on this thread's stream.
bool launch_kernel(Device &device, Kernel &kernel, void **arguments, const int64_t *extents);

}  // namespace tvmbuild
