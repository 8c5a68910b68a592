#include "registration.h"

#include "failure.h"
#include "ffi.h"
#include "kernel_module.h"
#include "name.h"
#include "runtime.h"
#include "tvm_classes.h"

namespace tvmbuild {

int give_api(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result) {
  *result = make_pointer(device_api());
  return 0;
}

namespace {

int load_module(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  size_t size = 0;
  const char *bytes = count == 1 ? read_text(arguments[0], size) : nullptr;
  if (bytes == nullptr) fail(TVMBUILD_TITLE ": a module is made of bytes");
  return bytes != nullptr && KernelModule::make(bytes, size, *result) ? 0 : raise_failure();
}

int give_devices(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result) {
  Text json;
  return describe_devices(json) && make_string(json.data(), json.size(), *result) ? 0 : raise_failure();
}

}  // namespace

bool register_runtime() {
  return check_version() && check_vtables() && prepare_modules() &&
         register_function("device_api." TVMBUILD_KIND, give_api) &&
         register_function("ffi.Module.load_from_bytes." TVMBUILD_KIND, load_module) &&
         register_function("tvmbuild_" TVMBUILD_KIND ".devices", give_devices);
}

}  // namespace tvmbuild
