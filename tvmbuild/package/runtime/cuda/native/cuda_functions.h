// The driver's functions, found at run time, because a machine without a driver must be able to load this library.
#pragma once
#include "cuda_types.h"

namespace tvmbuild {

// X(name, symbol, parameters). Every driver since CUDA 11.4 has these.
#define TVMBUILD_CUDA_FUNCTIONS(X)                                                                                  \
  X(Init, "cuInit", (unsigned))                                                                                     \
  X(DriverGetVersion, "cuDriverGetVersion", (int *))                                                                \
  X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                                    \
  X(DeviceGet, "cuDeviceGet", (CUdevice *, int))                                                                    \
  X(DeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                                                      \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, CUdevice_attribute, CUdevice))                              \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice))                                                    \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                                    \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext *))                                                                \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                                  \
  X(CtxSynchronize, "cuCtxSynchronize", ())                                                                         \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                            \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                                             \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr))                                                                         \
  X(MemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                    \
  X(MemFreeHost, "cuMemFreeHost", (void *))                                                                         \
  X(PointerGetAttribute, "cuPointerGetAttribute", (void *, CUpointer_attribute, CUdeviceptr))                       \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream))                         \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream))                               \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                          \
  X(MemcpyPeerAsync, "cuMemcpyPeerAsync", (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))       \
  X(StreamCreate, "cuStreamCreate", (CUstream *, unsigned))                                                         \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                                \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream))                                                           \
  X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                            \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, CUstreamCaptureMode))                                 \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                                                  \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, unsigned long long))                  \
  X(GraphUpload, "cuGraphUpload", (CUgraphExec, CUstream))                                                          \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                          \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph))                                                                      \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                          \
  X(EventCreate, "cuEventCreate", (CUevent *, unsigned))                                                            \
  X(EventRecord, "cuEventRecord", (CUevent, CUstream))                                                              \
  X(EventElapsedTime, "cuEventElapsedTime", (float *, CUevent, CUevent))                                            \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent))                                                                   \
  X(ModuleLoadDataEx, "cuModuleLoadDataEx", (CUmodule *, const void *, unsigned, CUjit_option *, void **))          \
  X(ModuleUnload, "cuModuleUnload", (CUmodule))                                                                     \
  X(ModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))                               \
  X(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction, CUfunction_attribute, int))                                \
  X(LaunchKernel, "cuLaunchKernel",                                                                                 \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
  X(LaunchCooperativeKernel, "cuLaunchCooperativeKernel",                                                           \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **))          \
  X(GetErrorName, "cuGetErrorName", (CUresult, const char **))                                                      \
  X(GetErrorString, "cuGetErrorString", (CUresult, const char **))

// Null where the driver is older: CUDA 11.8 and 12.4 brought them.
#define TVMBUILD_NEWER_CUDA_FUNCTIONS(X)                                                        \
  X(LaunchKernelEx, "cuLaunchKernelEx", (const CUlaunchConfig *, CUfunction, void **, void **)) \
  X(FuncLoad, "cuFuncLoad", (CUfunction))

#define TVMBUILD_MEMBER(name, symbol, parameters) CUresult(*name) parameters;
struct CudaFunctions {
  TVMBUILD_CUDA_FUNCTIONS(TVMBUILD_MEMBER)
  TVMBUILD_NEWER_CUDA_FUNCTIONS(TVMBUILD_MEMBER)
};
#undef TVMBUILD_MEMBER

constexpr int OLDEST_DRIVER = 11040;  // CUDA 11.4, as cuDriverGetVersion tells it

}  // namespace tvmbuild
