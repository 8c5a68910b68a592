// The check that TVM's classes match tvm_classes.h. Without one of these symbols this library does not load.
#include <stdint.h>

#include "failure.h"
#include "tvm_classes.h"

#define TVMBUILD_SYMBOL(index, name, symbol) extern "C" void name() __asm__(symbol);
#define TVMBUILD_SLOT(index, name, symbol) {index, name},

// X(slot, name, symbol)
#define TVMBUILD_DEVICE_SLOTS(X)                                                                            \
  X(4, get_data_size, "_ZN3tvm7runtime9DeviceAPI11GetDataSizeERK8DLTensorNS_3ffi8OptionalINS5_6StringEvEE") \
  X(7, alloc_shape,                                                                                         \
    "_ZN3tvm7runtime9DeviceAPI14AllocDataSpaceE8DLDeviceiPKl10DLDataTypeNS_3ffi8OptionalINS6_6StringEvEE")  \
  X(9, copy_tensor, "_ZN3tvm7runtime9DeviceAPI14CopyDataFromToEP8DLTensorS3_Pv")                            \
  X(10, create_stream, "_ZN3tvm7runtime9DeviceAPI12CreateStreamE8DLDevice")                                 \
  X(11, free_stream, "_ZN3tvm7runtime9DeviceAPI10FreeStreamE8DLDevicePv")                                   \
  X(13, set_stream, "_ZN3tvm7runtime9DeviceAPI9SetStreamE8DLDevicePv")                                      \
  X(14, get_current_stream, "_ZN3tvm7runtime9DeviceAPI16GetCurrentStreamE8DLDevice")                        \
  X(15, sync_streams, "_ZN3tvm7runtime9DeviceAPI16SyncStreamFromToE8DLDevicePvS3_")                         \
  X(16, alloc_workspace, "_ZN3tvm7runtime9DeviceAPI14AllocWorkspaceE8DLDevicem10DLDataType")                \
  X(17, free_workspace, "_ZN3tvm7runtime9DeviceAPI13FreeWorkspaceE8DLDevicePv")                             \
  X(19, copy_bytes, "_ZN3tvm7runtime9DeviceAPI14CopyDataFromToEPKvmPvmm8DLDeviceS5_10DLDataTypeS4_")
#define TVMBUILD_MODULE_SLOTS(X)                                             \
  X(10, import_module, "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE") \
  X(11, clear_imports, "_ZN3tvm3ffi9ModuleObj12ClearImportsEv")

TVMBUILD_DEVICE_SLOTS(TVMBUILD_SYMBOL)
TVMBUILD_MODULE_SLOTS(TVMBUILD_SYMBOL)
extern "C" void *const device_vtable[] __asm__("_ZTVN3tvm7runtime9DeviceAPIE");
extern "C" void *const module_vtable[] __asm__("_ZTVN3tvm3ffi9ModuleObjE");

namespace tvmbuild {
namespace {

struct Slot {
  int index;
  void (*function)();
};
constexpr int BEFORE_SLOTS = 2;  // the offset to the whole object, and the type's description

template <size_t count>
bool fits(void *const *vtable, const Slot (&slots)[count]) {
  for (const Slot &slot : slots)
    if (vtable[BEFORE_SLOTS + slot.index] != reinterpret_cast<void *>(slot.function)) return false;
  return true;
}

}  // namespace

bool check_vtables() {
  static const Slot of_device[] = {TVMBUILD_DEVICE_SLOTS(TVMBUILD_SLOT)};
  static const Slot of_module[] = {TVMBUILD_MODULE_SLOTS(TVMBUILD_SLOT)};
  if (!fits(device_vtable, of_device)) return fail("TVM's class DeviceAPI is another than this library is made for");
  return fits(module_vtable, of_module) || fail("tvm_ffi's class ModuleObj is another than this library is made for");
}

}  // namespace tvmbuild
