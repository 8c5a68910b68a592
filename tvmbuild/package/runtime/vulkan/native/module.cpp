#include "module.h"

#include "blob.h"
#include "device.h"
#include "device_api.h"
#include "failure.h"
#include "ffi.h"
#include "lock.h"
#include "tvm_classes.h"

extern "C" void tvm_import_module(tvmbuild::ModuleObject *, const TVMFFIObjectHandle &) __asm__(
    "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE");
extern "C" void tvm_clear_imports(tvmbuild::ModuleObject *) __asm__("_ZN3tvm3ffi9ModuleObj12ClearImportsEv");

namespace tvmbuild {
namespace {

TVMFFIObjectHandle make_array, make_map;  // TVM's functions

TVMFFIObjectHandle make_empty(TVMFFIObjectHandle maker) {
  TVMFFIAny result;
  return call_function(maker, nullptr, 0, result) ? static_cast<TVMFFIObjectHandle>(result.v_obj) : nullptr;
}

class Module final : public ModuleObject, public OnHeap {
 public:
  const char *kind() const override { return "vulkan"; }
  int GetPropertyMask() const override { return RUNNABLE | SERIALIZABLE; }
  ObjectResult GetFunction(const TVMFFIAny &name) override { return ObjectResult(make_function(find(name))); }
  bool ImplementsFunction(const TVMFFIAny &name) override { return find(name) != nullptr; }
  ValueResult GetFunctionDoc(const TVMFFIAny &) override { return ValueResult(none()); }
  ValueResult GetFunctionMetadata(const TVMFFIAny &) override { return ValueResult(none()); }
  void WriteToFile(const TVMFFIAny &, const TVMFFIAny &) const override {
    fail("Vulkan: a module is written as bytes only");
    throw_failure();
  }
  ObjectResult GetWriteFormats() const override { return ObjectResult(make_empty(make_array)); }
  ValueResult SaveToBytes() const override {
    TVMFFIAny value = none();
    if (!make_bytes(bytes_.data(), bytes_.size(), value)) throw_failure();
    return ValueResult(value);
  }
  ValueResult InspectSource(const TVMFFIAny &) const override {
    TVMFFIAny value = none();
    if (!make_string("", 0, value)) throw_failure();
    return ValueResult(value);
  }
  void ImportModule(const TVMFFIObjectHandle &other) override { tvm_import_module(this, other); }
  void ClearImports() override { tvm_clear_imports(this); }

  bool fill(const void *bytes, size_t size) {
    memcpy(bytes_.grow(size), bytes, size);
    if (!parse_blob(bytes_.data(), size, kernels_)) return false;
    header.combined_ref_count = 1ull << 32 | 1;  // the upper half counts the weak ones
    header.type_index = kTVMFFIModule;
    header.deleter = [](void *self, int flags) { of(self)->remove(flags); };
    imports = make_empty(make_array);
    lookup_cache = make_empty(make_map);
    return imports != nullptr && lookup_cache != nullptr;
  }

 private:
  static Module *of(void *handle) {
    Module *none_of_them = reinterpret_cast<Module *>(64);  // offsetof, for a class with virtual functions
    size_t offset = reinterpret_cast<size_t>(&none_of_them->header) - 64;
    return reinterpret_cast<Module *>(static_cast<char *>(handle) - offset);
  }

  Kernel *find(const TVMFFIAny &name) {
    size_t size = 0;
    const char *text = read_text(name, size);
    for (Kernel &kernel : kernels_)
      if (text != nullptr && strlen(kernel.name) == size && memcmp(kernel.name, text, size) == 0) return &kernel;
    return nullptr;
  }

  // A function keeps its module alive.
  struct Bound : OnHeap {
    Module *module;
    Kernel *kernel;
  };

  TVMFFIObjectHandle make_function(Kernel *kernel) {
    if (kernel == nullptr) return nullptr;
    Bound *bound = new Bound();
    bound->module = this;
    bound->kernel = kernel;
    TVMFFIObjectIncRef(&header);
    auto forget = [](void *self) {
      TVMFFIObjectDecRef(&static_cast<Bound *>(self)->module->header);
      delete static_cast<Bound *>(self);
    };
    TVMFFIObjectHandle function = nullptr;
    if (TVMFFIFunctionCreate(bound, call, forget, &function) == 0) return function;
    forget(bound);
    return nullptr;
  }

  static int call(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
    *result = none();
    return run(*static_cast<Bound *>(self)->kernel, arguments, count) ? 0 : raise_failure();
  }

  static bool run(Kernel &kernel, const TVMFFIAny *arguments, int32_t count);

  void remove(int flags) {
    if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
      release_kernels();
      TVMFFIObjectDecRef(imports);
      TVMFFIObjectDecRef(lookup_cache);
    }
    if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) delete this;
  }

  void release_kernels() {
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

  List<uint8_t> bytes_;
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

bool Module::run(Kernel &kernel, const TVMFFIAny *arguments, int32_t count) {
  if (count != static_cast<int32_t>(kernel.buffers + kernel.scalars + kernel.extents))
    return fail("Vulkan: kernel %s takes %u arguments, not %d", kernel.name,
                kernel.buffers + kernel.scalars + kernel.extents, count);
  uint64_t addresses[MAX_BUFFERS], scalars[MAX_SCALARS];
  int64_t extents[MAX_EXTENTS];
  for (uint32_t index = 0; index < kernel.buffers; index++, arguments++) {
    if (arguments->type_index != kTVMFFIOpaquePtr)
      return fail("Vulkan: argument %u of kernel %s is no pointer", index, kernel.name);
    addresses[index] = reinterpret_cast<uint64_t>(arguments->v_ptr);
  }
  for (uint32_t index = 0; index < kernel.scalars; index++, arguments++)
    if (!read_scalar(*arguments, kernel.kinds[index], scalars[index]))
      return fail("Vulkan: scalar %u of kernel %s is of another type", index, kernel.name);
  for (uint32_t index = 0; index < kernel.extents; index++, arguments++)
    if (!read_int(*arguments, extents[index]))
      return fail("Vulkan: extent %u of kernel %s is no number", index, kernel.name);
  Device *device = use_device(current_device());
  return device != nullptr && launch_kernel(*device, kernel, addresses, scalars, extents);
}

}  // namespace

bool prepare_modules() {
  make_array = find_function("ffi.Array");
  make_map = find_function("ffi.Map");
  return (make_array != nullptr && make_map != nullptr) || fail("tvm_ffi has no function ffi.Array or ffi.Map");
}

bool make_module(const void *bytes, size_t size, TVMFFIAny &result) {
  Module *module = new Module();
  if (!module->fill(bytes, size)) {
    delete module;
    return false;
  }
  result = none();
  result.type_index = kTVMFFIModule;
  result.v_obj = &module->header;
  return true;
}

}  // namespace tvmbuild
