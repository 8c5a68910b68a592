// Two C++ classes of TVM, declared so that their vtables and objects have the same layout (the Itanium C++ ABI: a slot
// for each virtual function in the order of their declarations, two for a destructor). TVM's own headers would bring
// exceptions and a C++ library. Arguments of classes with a destructor are passed as their addresses. Results of such
// classes are written to an address that the caller gives, which the destructor here causes. register.cpp compares the
// vtables with the ones in TVM's libraries.
#pragma once
#include <tvm/ffi/c_api.h>

#include "list.h"

namespace tvmbuild {

// ffi::Optional<Function>, ffi::Array: an owned object or null. A function that returns one gives its reference away.
struct ObjectResult {
  TVMFFIObjectHandle object;
  explicit ObjectResult(TVMFFIObjectHandle owned) : object(owned) {}
  ~ObjectResult();  // never defined: a result is always constructed in place
};

// ffi::String, ffi::Bytes, ffi::Optional<String>.
struct ValueResult {
  TVMFFIAny value;
  explicit ValueResult(const TVMFFIAny &owned) : value(owned) {}
  ~ValueResult();
};

// tvm::runtime::DeviceAPI.
class DeviceApi {
 public:
  virtual ~DeviceApi() {}
  virtual void SetDevice(DLDevice device) = 0;
  virtual void GetAttr(DLDevice device, int kind, TVMFFIAny *result) = 0;
  virtual size_t GetDataSize(const DLTensor &tensor, const void *scope) = 0;
  virtual void GetTargetProperty(DLDevice device, const void *name, TVMFFIAny *result) = 0;
  virtual void *AllocDataSpace(DLDevice device, size_t size, size_t alignment, DLDataType hint) = 0;
  virtual void *AllocDataSpace(DLDevice device, int dimensions, const int64_t *shape, DLDataType type,
                               const void *scope) = 0;
  virtual void FreeDataSpace(DLDevice device, void *address) = 0;
  virtual void CopyDataFromTo(DLTensor *from, DLTensor *to, void *stream) = 0;
  virtual void *CreateStream(DLDevice device) = 0;
  virtual void FreeStream(DLDevice device, void *stream) = 0;
  virtual void StreamSync(DLDevice device, void *stream) = 0;
  virtual void SetStream(DLDevice device, void *stream) = 0;
  virtual void *GetCurrentStream(DLDevice device) = 0;
  virtual void SyncStreamFromTo(DLDevice device, void *source, void *target) = 0;
  virtual void *AllocWorkspace(DLDevice device, size_t size, DLDataType hint) = 0;
  virtual void FreeWorkspace(DLDevice device, void *address) = 0;
  virtual bool SupportsDevicePointerArithmeticsOnHost() = 0;
  virtual void CopyDataFromTo(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size,
                              DLDevice source, DLDevice target, DLDataType hint, void *stream) = 0;
  static void operator delete(void *) {}
};

// tvm::ffi::ModuleObj. Its base has no virtual functions, so the vtable's address comes before the header.
class ModuleObject {
 public:
  virtual const char *kind() const = 0;
  virtual int GetPropertyMask() const = 0;
  virtual ObjectResult GetFunction(const TVMFFIAny &name) = 0;
  virtual bool ImplementsFunction(const TVMFFIAny &name) = 0;
  virtual ValueResult GetFunctionDoc(const TVMFFIAny &name) = 0;
  virtual ValueResult GetFunctionMetadata(const TVMFFIAny &name) = 0;
  virtual void WriteToFile(const TVMFFIAny &path, const TVMFFIAny &format) const = 0;
  virtual ObjectResult GetWriteFormats() const = 0;
  virtual ValueResult SaveToBytes() const = 0;
  virtual ValueResult InspectSource(const TVMFFIAny &format) const = 0;
  virtual void ImportModule(const TVMFFIObjectHandle &other) = 0;
  virtual void ClearImports() = 0;

  TVMFFIObject header;
  TVMFFIObjectHandle imports;       // an Array
  TVMFFIObjectHandle lookup_cache;  // a Map
};

constexpr int RUNNABLE = 2, SERIALIZABLE = 1;

// The vtables' slots that TVM's libraries fill with functions that they export. False with the failure set.
bool check_vtables();

}  // namespace tvmbuild
