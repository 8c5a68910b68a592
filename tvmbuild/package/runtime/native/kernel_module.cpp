#include "kernel_module.h"

#include "failure.h"
#include "ffi.h"
#include "name.h"
#include "runtime.h"

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

}  // namespace

// A function keeps its module alive.
struct KernelModule::Bound : OnHeap {
  KernelModule *module;
  void *kernel;
};

const char *KernelModule::kind() const { return TVMBUILD_KIND; }

ObjectResult KernelModule::GetFunction(const TVMFFIAny &name) { return ObjectResult(make_function(find(name))); }

ValueResult KernelModule::GetFunctionDoc(const TVMFFIAny &) { return ValueResult(none()); }

ValueResult KernelModule::GetFunctionMetadata(const TVMFFIAny &) { return ValueResult(none()); }

void KernelModule::WriteToFile(const TVMFFIAny &, const TVMFFIAny &) const {
  fail(TVMBUILD_TITLE ": a module is written as bytes only");
  throw_failure();
}

ObjectResult KernelModule::GetWriteFormats() const { return ObjectResult(make_empty(make_array)); }

ValueResult KernelModule::SaveToBytes() const {
  TVMFFIAny value = none();
  if (!make_bytes(bytes_.data(), bytes_.size(), value)) throw_failure();
  return ValueResult(value);
}

ValueResult KernelModule::InspectSource(const TVMFFIAny &) const {
  TVMFFIAny value = none();
  if (!make_string("", 0, value)) throw_failure();
  return ValueResult(value);
}

void KernelModule::ImportModule(const TVMFFIObjectHandle &other) { tvm_import_module(this, other); }

void KernelModule::ClearImports() { tvm_clear_imports(this); }

bool KernelModule::make(const void *bytes, size_t size, TVMFFIAny &result) {
  KernelModule *module = new_module();
  if (!module->fill(bytes, size)) {
    module->destroy();
    return false;
  }
  result = module->as_value();
  return true;
}

bool KernelModule::fill(const void *bytes, size_t size) {
  memcpy(bytes_.grow(size), bytes, size);
  if (!parse(bytes_.data(), size)) return false;
  header.combined_ref_count = 1ull << 32 | 1;  // the upper half counts the weak ones
  header.type_index = kTVMFFIModule;
  header.deleter = [](void *self, int flags) { of(self)->remove(flags); };
  imports = make_empty(make_array);
  lookup_cache = make_empty(make_map);
  return imports != nullptr && lookup_cache != nullptr;
}

TVMFFIAny KernelModule::as_value() {
  TVMFFIAny value = none();
  value.type_index = kTVMFFIModule;
  value.v_obj = &header;
  return value;
}

KernelModule *KernelModule::of(void *handle) {
  KernelModule *none_of_them = reinterpret_cast<KernelModule *>(64);  // offsetof, for a class with virtual functions
  size_t offset = reinterpret_cast<size_t>(&none_of_them->header) - 64;
  return reinterpret_cast<KernelModule *>(static_cast<char *>(handle) - offset);
}

void *KernelModule::find(const TVMFFIAny &name) {
  size_t size = 0;
  const char *text = read_text(name, size);
  return text != nullptr ? find_kernel(text, size) : nullptr;
}

TVMFFIObjectHandle KernelModule::make_function(void *kernel) {
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

int KernelModule::call(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  Bound *bound = static_cast<Bound *>(self);
  return bound->module->run(bound->kernel, arguments, count) ? 0 : raise_failure();
}

void KernelModule::remove(int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    release();
    TVMFFIObjectDecRef(imports);
    TVMFFIObjectDecRef(lookup_cache);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) destroy();
}

bool prepare_modules() {
  make_array = find_function("ffi.Array");
  make_map = find_function("ffi.Map");
  return (make_array != nullptr && make_map != nullptr) || fail("tvm_ffi has no function ffi.Array or ffi.Map");
}

}  // namespace tvmbuild
