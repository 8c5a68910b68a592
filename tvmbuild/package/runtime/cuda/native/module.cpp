#include "basic_device_api.h"
#include "blob.h"
#include "failure.h"
#include "ffi.h"
#include "kernel_module.h"
#include "runtime.h"

namespace tvmbuild {
namespace {

class Module final : public KernelModule {
 protected:
  bool parse(const uint8_t *bytes, size_t size) override { return parse_blob(bytes, size, image_, kernels_); }

  void *find_kernel(const char *name, size_t size) override { return find_named(kernels_, name, size); }

  bool run(void *kernel, const TVMFFIAny *arguments, int32_t count) override;

  void release() override {
    for (int index = 0; index < MAX_DEVICES; index++)
      if (image_.on[index] != nullptr)
        if (UsedDevice device = started_device(index)) release_kernels(*device, image_);
  }

  void destroy() override { delete this; }

 private:
  Image image_ = {};
  List<Kernel> kernels_;
};

bool read_argument(const TVMFFIAny &value, ArgumentKind kind, uint64_t &word) {
  if (kind == POINTER) {
    word = reinterpret_cast<uint64_t>(value.v_ptr);
    return value.type_index == kTVMFFIOpaquePtr || value.type_index == kTVMFFINone;
  }
  int64_t number = 0;
  bool is_integer = read_int(value, number);
  if (kind == INTEGER) {
    word = static_cast<uint64_t>(number);  // the kernel takes its lower bytes: both machines are little endian
    return is_integer;
  }
  double real = is_integer ? static_cast<double>(number) : value.v_float64;
  float narrow = static_cast<float>(real);
  word = 0;
  if (kind == FLOAT32)
    memcpy(&word, &narrow, sizeof(narrow));
  else
    memcpy(&word, &real, sizeof(real));
  return is_integer || value.type_index == kTVMFFIFloat;
}

bool Module::run(void *found, const TVMFFIAny *arguments, int32_t count) {
  Kernel &kernel = *static_cast<Kernel *>(found);
  if (count != static_cast<int32_t>(kernel.arguments + kernel.extents))
    return fail("CUDA: kernel %s takes %u arguments, not %d", kernel.name, kernel.arguments + kernel.extents, count);
  uint64_t words[MAX_ARGUMENTS];
  void *places[MAX_ARGUMENTS];
  int64_t extents[MAX_EXTENTS];
  for (uint32_t index = 0; index < kernel.arguments; index++, arguments++) {
    if (!read_argument(*arguments, kernel.kinds[index], words[index]))
      return fail("CUDA: argument %u of kernel %s is of another type", index, kernel.name);
    places[index] = &words[index];
  }
  for (uint32_t index = 0; index < kernel.extents; index++, arguments++)
    if (!read_int(*arguments, extents[index]))
      return fail("CUDA: extent %u of kernel %s is no number", index, kernel.name);
  UsedDevice device = use_device(current_device());
  return device && prepare_kernels(*device, image_, kernels_) && launch_kernel(*device, kernel, places, extents);
}

}  // namespace

KernelModule *new_module() { return new Module(); }

}  // namespace tvmbuild
