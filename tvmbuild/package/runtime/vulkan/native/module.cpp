#include "basic_device_api.h"
#include "blob.h"
#include "device.h"
#include "failure.h"
#include "ffi.h"
#include "kernel_module.h"
#include "lock.h"
#include "runtime.h"

namespace tvmbuild {
namespace {

class Module final : public KernelModule {
 protected:
  bool parse(const uint8_t *bytes, size_t size) override { return parse_blob(bytes, size, kernels_); }

  void *find_kernel(const char *name, size_t size) override { return find_named(kernels_, name, size); }

  bool run(void *kernel, const TVMFFIAny *arguments, int32_t count) override;

  void release() override {
    for (int index = 0; index < MAX_DEVICES; index++) {
      Device *device = started_device(index);
      bool is_used = false;
      for (const Kernel &kernel : kernels_) is_used |= kernel.on[index] != nullptr;
      if (device == nullptr || !is_used) continue;
      Lock lock(device->lock);
      if (!device->is_lost) wait_for_all(*device);
      for (Kernel &kernel : kernels_) {
        if (kernel.on[index] == nullptr) continue;
        forget_kernel(*device, &kernel);
        release_kernel(*device, kernel);
      }
    }
  }

  void destroy() override { delete this; }

 private:
  List<Kernel> kernels_;
};

bool read_scalar(const TVMFFIAny &value, uint8_t kind, uint64_t &word) {
  word = 0;
  if (kind == SCALAR_FLOAT32) {
    float number =
        value.type_index == kTVMFFIFloat ? static_cast<float>(value.v_float64) : static_cast<float>(value.v_int64);
    memcpy(&word, &number, 4);
    return value.type_index == kTVMFFIFloat || value.type_index == kTVMFFIInt;
  }
  int64_t number = 0;
  if (!read_int(value, number)) return false;
  if (kind == SCALAR_INT64)
    word = static_cast<uint64_t>(number);
  else
    word = kind == SCALAR_BOOL ? number != 0 : static_cast<uint32_t>(number);
  return true;
}

bool Module::run(void *found, const TVMFFIAny *arguments, int32_t count) {
  Kernel &kernel = *static_cast<Kernel *>(found);
  if (count != static_cast<int32_t>(kernel.buffers + kernel.scalars + kernel.extents))
    return fail("Vulkan: kernel %s takes %u arguments, not %d", kernel.name,
                kernel.buffers + kernel.scalars + kernel.extents, count);
  uint64_t addresses[MAX_BUFFERS], scalars[MAX_SCALARS];
  int64_t extents[MAX_EXTENTS];
  for (uint32_t index = 0; index < kernel.buffers; index++, arguments++) {
    if (arguments->type_index != kTVMFFIOpaquePtr)
      return fail("Vulkan: argument %u of kernel %s is not a pointer", index, kernel.name);
    addresses[index] = reinterpret_cast<uint64_t>(arguments->v_ptr);
  }
  for (uint32_t index = 0; index < kernel.scalars; index++, arguments++)
    if (!read_scalar(*arguments, kernel.kinds[index], scalars[index]))
      return fail("Vulkan: scalar %u of kernel %s is of another type", index, kernel.name);
  for (uint32_t index = 0; index < kernel.extents; index++, arguments++)
    if (!read_int(*arguments, extents[index]))
      return fail("Vulkan: extent %u of kernel %s is not a number", index, kernel.name);
  Device *device = use_device(current_device());
  return device != nullptr && launch_kernel(*device, kernel, addresses, scalars, extents);
}

}  // namespace

KernelModule *new_module() { return new Module(); }

}  // namespace tvmbuild
