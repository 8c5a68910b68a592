#include "kernel.h"

#include <stdio.h>

#include "failure.h"
#include "lock.h"

namespace tvmbuild {
namespace {

constexpr int USUAL_SHARED_BYTES = 48 << 10;  // more must be allowed for each kernel

pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

// Whether the driver does not know the code's form, or the card is another than the code is for.
bool is_refusal(CUresult result) {
  return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
         result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_INVALID_SOURCE ||
         result == CUDA_ERROR_INVALID_PTX;
}

bool explain_refusal(Device &device, CUresult result, const Image &image, const char *said) {
  int version = open_cuda()->version;
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
    return fail("CUDA: the kernels are not for %s, which is sm_%d%d", device.name, device.major, device.minor);
  if (is_refusal(result))
    return fail("CUDA: the driver of CUDA %s cannot load this package's kernels (%s): its compiler was newer%s%s",
                describe_version(version), image.ptx != nullptr ? "cubin and ptx" : image.format,
                said[0] != 0 ? ": " : "", said);
  return check(device, result, "load the kernels");
}

bool load_image(Device &device, Image &image, CUmodule &module) {
  char said[512] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {said, reinterpret_cast<void *>(sizeof(said) - 1)};
  CUresult result = device.cu->ModuleLoadDataEx(&module, image.code, 2, options, values);
  if (is_refusal(result) && image.ptx != nullptr) {
    said[0] = 0;
    values[1] = reinterpret_cast<void *>(sizeof(said) - 1);  // the driver has written the length of its words there
    result = device.cu->ModuleLoadDataEx(&module, image.ptx, 2, options, values);
  }
  return result == CUDA_SUCCESS || explain_refusal(device, result, image, said);
}

// Find every kernel now, because a capture must not load code.
bool find_kernels(Device &device, CUmodule module, List<Kernel> &kernels) {
  const CudaFunctions &cu = *device.cu;
  for (Kernel &kernel : kernels) {
    CUfunction &function = kernel.function[device.index];
    CUresult result = cu.ModuleGetFunction(&function, module, kernel.name);
    if (result == CUDA_SUCCESS && cu.FuncLoad != nullptr) result = cu.FuncLoad(function);
    char what[sizeof(kernel.name) + 32];
    snprintf(what, sizeof(what), "load kernel %s", kernel.name);
    if (!check(device, result, what)) return false;
  }
  return true;
}

bool allow_shared_memory(Device &device, Kernel &kernel, unsigned bytes) {
  int &allowed = kernel.shared_bytes[device.index];
  int wanted = static_cast<int>(bytes);
  if (wanted <= allowed || wanted <= USUAL_SHARED_BYTES) return true;
  CUresult result = device.cu->FuncSetAttribute(kernel.function[device.index],
                                                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, wanted);
  if (result == CUDA_ERROR_INVALID_VALUE)
    return fail("CUDA: kernel %s needs %u bytes of shared memory, and %s has fewer: %s", kernel.name, bytes,
                device.name, describe_result(*open_cuda(), result));
  if (result != CUDA_SUCCESS) {
    char what[sizeof(kernel.name) + 64];
    snprintf(what, sizeof(what), "allow %u bytes of shared memory for kernel %s", bytes, kernel.name);
    return check(device, result, what);
  }
  allowed = wanted;
  return true;
}

CUresult launch(const CudaFunctions &cu, const Kernel &kernel, CUlaunchConfig &config, CUfunction function,
                void **arguments) {
  CUlaunchAttribute attributes[2] = {};
  if (kernel.is_dependent) {
    CUlaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  if (kernel.is_cooperative) {
    CUlaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
  }
  config.attrs = attributes;
  if (config.numAttrs > 0 && cu.LaunchKernelEx != nullptr)
    return cu.LaunchKernelEx(&config, function, arguments, nullptr);
  // A driver before 11.8: the kernel begins when the one before it has ended, which is right, only later.
  const unsigned *grid = config.gridDim, *block = config.blockDim;
  if (kernel.is_cooperative)
    return cu.LaunchCooperativeKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                      config.sharedMemBytes, config.hStream, arguments);
  return cu.LaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], config.sharedMemBytes,
                         config.hStream, arguments, nullptr);
}

bool read_extents(const Kernel &kernel, const int64_t *extents, CUlaunchConfig &config) {
  unsigned *const places[] = {&config.gridDim[0],  &config.gridDim[1],  &config.gridDim[2],    &config.blockDim[0],
                              &config.blockDim[1], &config.blockDim[2], &config.sharedMemBytes};
  for (uint32_t index = 0; index < kernel.extents; index++) {
    if (extents[index] < 0 || extents[index] > INT32_MAX)
      return fail("CUDA: kernel %s is launched with an extent of %lld", kernel.name,
                  static_cast<long long>(extents[index]));
    *places[kernel.meanings[index]] = static_cast<unsigned>(extents[index]);
  }
  return true;
}

}  // namespace

bool prepare_kernels(Device &device, Image &image, List<Kernel> &kernels) {
  if (__atomic_load_n(&image.on[device.index], __ATOMIC_ACQUIRE) != nullptr) return true;
  Lock lock(loading);
  if (image.on[device.index] != nullptr) return true;
  CUmodule module = nullptr;
  if (!load_image(device, image, module)) return false;
  if (!find_kernels(device, module, kernels)) {
    device.cu->ModuleUnload(module);
    return false;
  }
  __atomic_store_n(&image.on[device.index], module, __ATOMIC_RELEASE);
  return true;
}

void release_kernels(Device &device, Image &image) {
  if (image.on[device.index] != nullptr) device.cu->ModuleUnload(image.on[device.index]);
  image.on[device.index] = nullptr;
}

bool launch_kernel(Device &device, Kernel &kernel, void **arguments, const int64_t *extents) {
  CUlaunchConfig config = {{1, 1, 1}, {1, 1, 1}, 0, current_stream(device), nullptr, 0};
  if (!read_extents(kernel, extents, config)) return false;
  for (unsigned groups : config.gridDim)
    if (groups == 0) return true;  // an empty tensor
  if (!allow_shared_memory(device, kernel, config.sharedMemBytes)) return false;
  CUresult result = launch(*device.cu, kernel, config, kernel.function[device.index], arguments);
  if (result == CUDA_SUCCESS) return true;
  char what[sizeof(kernel.name) + 32];
  snprintf(what, sizeof(what), "launch kernel %s", kernel.name);
  return check(device, result, what);
}

}  // namespace tvmbuild
