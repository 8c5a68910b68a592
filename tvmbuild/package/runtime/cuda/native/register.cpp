// The exported functions of this library: for plugin.py and, registered through them, for TVM.
#include "basic_device_api.h"
#include "device.h"
#include "failure.h"
#include "ffi.h"
#include "graph.h"
#include "lane_copies.h"
#include "registration.h"
#include "sharing.h"

#define TVMBUILD_EXPORT extern "C" __attribute__((visibility("default")))

namespace tvmbuild {
namespace {

int give_stream(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result) {
  UsedDevice device = use_device(current_device());
  if (!device) return raise_failure();
  *result = make_pointer(current_stream(*device));
  return 0;
}

}  // namespace
}  // namespace tvmbuild

// Register the kind "cuda" with TVM. -1 if the library was made for another TVM, or if this TVM has the kind already.
TVMBUILD_EXPORT int tvmbuild_cuda_register() {
  using namespace tvmbuild;
  bool is_done = register_runtime() && prepare_graphs() && register_function("device_api.cuda_host", give_api) &&
                 register_function("vm.builtin.cuda_graph.get_cached_alloc", give_kept_memory) &&
                 register_function("vm.builtin.cuda_graph.run_or_capture", run_or_capture) &&
                 register_function("runtime.get_cuda_stream", give_stream) &&
                 register_function("tvmbuild_cuda.shares_memory", tell_sharing) &&
                 register_function("tvmbuild_cuda.share", share_tensor) &&
                 register_function("tvmbuild_cuda.copy_in", copy_in) &&
                 register_function("tvmbuild_cuda.copy_out", copy_out) &&
                 register_function("tvmbuild_cuda.call_with_own_memory", call_with_own_memory);
  return is_done ? 0 : -1;
}

// The reason why the last call in this thread failed.
TVMBUILD_EXPORT const char *tvmbuild_cuda_failure() { return tvmbuild::failure(); }
