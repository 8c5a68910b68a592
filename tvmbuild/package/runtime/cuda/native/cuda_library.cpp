#include "cuda_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "failure.h"
#include "left_out.h"
#include "lock.h"

namespace tvmbuild {
namespace {

pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
CudaLibrary opened;
bool is_open;
char refusal[1024];  // why it could not be opened

bool load_functions(void *library) {
#define TVMBUILD_LOAD(name, symbol, parameters) \
  opened.cu.name = reinterpret_cast<CUresult(*) parameters>(dlsym(library, symbol));
  TVMBUILD_CUDA_FUNCTIONS(TVMBUILD_LOAD)
  TVMBUILD_NEWER_CUDA_FUNCTIONS(TVMBUILD_LOAD)
#undef TVMBUILD_LOAD
  if (opened.cu.Init == nullptr || opened.cu.DriverGetVersion == nullptr)
    return fail("CUDA: libcuda.so.1 is no driver of NVIDIA's");
  CUresult result = opened.cu.DriverGetVersion(&opened.version);
  if (result != CUDA_SUCCESS) return fail("CUDA: the driver does not tell its version (code %d)", result);
  if (opened.version < OLDEST_DRIVER)
    return fail("CUDA: the driver is of CUDA %s, and 11.4 is needed", describe_version(opened.version));
#define TVMBUILD_CHECK(name, symbol, parameters) \
  if (opened.cu.name == nullptr)                 \
    return fail("CUDA: the driver of CUDA %s has no " symbol, describe_version(opened.version));
  TVMBUILD_CUDA_FUNCTIONS(TVMBUILD_CHECK)
#undef TVMBUILD_CHECK
  return true;
}

bool open_once() {
  if (!check_left_out(LEFT_OUT, &UNIFIED_MEMORY, 1)) return false;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail("CUDA: the driver is not installed (%s)", dlerror());
  if (!load_functions(library)) return false;
  CUresult result = opened.cu.Init(0);
  if (result == CUDA_SUCCESS) result = opened.cu.DeviceGetCount(&opened.devices);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NO_DEVICE)
    return fail("CUDA: the driver does not start: %s", describe_result(opened, result));
  if (opened.devices == 0) return fail("CUDA: the driver shows no device");
  is_open = true;
  return true;
}

}  // namespace

const CudaLibrary *open_cuda() {
  if (__atomic_load_n(&is_open, __ATOMIC_ACQUIRE)) return &opened;
  Lock lock(opening);
  if (is_open) return &opened;
  if (refusal[0] != 0) return fail("%s", refusal), nullptr;
  if (open_once()) return &opened;
  snprintf(refusal, sizeof(refusal), "%s", failure());
  return nullptr;
}

const char *describe_version(int version) {
  static thread_local char text[32];
  snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
  return text;
}

const char *describe_result(const CudaLibrary &library, CUresult result) {
  const char *text = nullptr;
  if (library.cu.GetErrorString(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  static thread_local char code[32];
  snprintf(code, sizeof(code), "code %d", static_cast<int>(result));
  return code;
}

}  // namespace tvmbuild
