// The driver, libcuda.so.1, opened once.
#pragma once
#include "cuda_functions.h"

namespace tvmbuild {

struct CudaLibrary {
  CudaFunctions cu;
  int version;  // the highest CUDA that the driver knows: 12020 for 12.2
  int devices;
};

constexpr char LEFT_OUT[] = "TVMBUILD_CUDA_WITHOUT";
constexpr const char *UNIFIED_MEMORY = "unified_memory";  // the only word for it

// Null with the failure set: there is no driver, it is too old, or it has no device. It is opened only once, and every
// later call gives the first reason.
const CudaLibrary *open_cuda();

// "12.2" for 12020, valid until this thread's next call.
const char *describe_version(int version);

// The driver's words for a result.
const char *describe_result(const CudaLibrary &library, CUresult result);

}  // namespace tvmbuild
