// A module of kernels as TVM sees it: everything but the kernels themselves.
#pragma once
#include <string.h>

#include "list.h"
#include "tvm_classes.h"

namespace tvmbuild {

class KernelModule : public ModuleObject, public OnHeap {
 public:
  const char *kind() const final;
  int GetPropertyMask() const final { return RUNNABLE | SERIALIZABLE; }
  ObjectResult GetFunction(const TVMFFIAny &name) final;
  bool ImplementsFunction(const TVMFFIAny &name) final { return find(name) != nullptr; }
  ValueResult GetFunctionDoc(const TVMFFIAny &name) final;
  ValueResult GetFunctionMetadata(const TVMFFIAny &name) final;
  void WriteToFile(const TVMFFIAny &path, const TVMFFIAny &format) const final;
  ObjectResult GetWriteFormats() const final;
  ValueResult SaveToBytes() const final;
  ValueResult InspectSource(const TVMFFIAny &format) const final;
  void ImportModule(const TVMFFIObjectHandle &other) final;
  void ClearImports() final;

  // Make a module from its bytes, as TVM's value. False with the failure set.
  static bool make(const void *bytes, size_t size, TVMFFIAny &result);

 protected:
  ~KernelModule() = default;

  // Read the kernels. Their texts may point into the bytes, which live as long as the module.
  virtual bool parse(const uint8_t *bytes, size_t size) = 0;
  // The kernel of a name, which need not end with a zero; or null.
  virtual void *find_kernel(const char *name, size_t size) = 0;
  virtual bool run(void *kernel, const TVMFFIAny *arguments, int32_t count) = 0;
  // Release what the devices have of the kernels. Nobody will call one.
  virtual void release() = 0;
  virtual void destroy() = 0;

 private:
  struct Bound;
  static KernelModule *of(void *handle);
  static int call(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);
  void *find(const TVMFFIAny &name);
  TVMFFIObjectHandle make_function(void *kernel);
  void remove(int flags);
  // Keep a copy of the bytes and read the kernels in it. False with the failure set.
  bool fill(const void *bytes, size_t size);
  TVMFFIAny as_value();

  List<uint8_t> bytes_;
};

// The kernel of a name, which need not end with a zero; or null.
template <typename Kernel>
Kernel *find_named(List<Kernel> &kernels, const char *name, size_t size) {
  for (Kernel &kernel : kernels)
    if (strlen(kernel.name) == size && memcmp(kernel.name, name, size) == 0) return &kernel;
  return nullptr;
}

// Find the functions of TVM's that make modules. False with the failure set.
bool prepare_modules();

}  // namespace tvmbuild
