// The exported functions of this library: for plugin.py and, registered through them, for TVM.
#include "attributes.h"
#include "basic_device_api.h"
#include "device.h"
#include "device_api.h"
#include "failure.h"
#include "ffi.h"
#include "graph.h"
#include "kernel_module.h"
#include "module.h"

#define TVMBUILD_EXPORT extern "C" __attribute__((visibility("default")))

namespace tvmbuild {
namespace {

int give_api(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result) {
  *result = make_pointer(device_api());
  return 0;
}

int load_module(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  size_t size = 0;
  const char *bytes = count == 1 ? read_text(arguments[0], size) : nullptr;
  if (bytes == nullptr) fail("CUDA: a module is made of bytes");
  return bytes != nullptr && make_module(bytes, size, *result) ? 0 : raise_failure();
}

int give_devices(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result) {
  Text json;
  return describe_devices(json) && make_string(json.data(), json.size(), *result) ? 0 : raise_failure();
}

int give_stream(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result) {
  Device *device = use_device(current_device());
  if (device == nullptr) return raise_failure();
  *result = make_pointer(current_stream(*device));
  return 0;
}

}  // namespace
}  // namespace tvmbuild

// Register the kind "cuda" with TVM. -1 if the library was made for another TVM, or if this TVM has the kind already.
TVMBUILD_EXPORT int tvmbuild_cuda_register() {
  using namespace tvmbuild;
  bool is_done = check_version() && check_vtables() && prepare_modules() && prepare_graphs() &&
                 register_function("device_api.cuda", give_api) &&
                 register_function("device_api.cuda_host", give_api) &&
                 register_function("ffi.Module.load_from_bytes.cuda", load_module) &&
                 register_function("vm.builtin.cuda_graph.get_cached_alloc", give_kept_memory) &&
                 register_function("vm.builtin.cuda_graph.run_or_capture", run_or_capture) &&
                 register_function("runtime.get_cuda_stream", give_stream) &&
                 register_function("tvmbuild_cuda.devices", give_devices);
  return is_done ? 0 : -1;
}

// The reason why the last call in this thread failed.
TVMBUILD_EXPORT const char *tvmbuild_cuda_failure() { return tvmbuild::failure(); }
