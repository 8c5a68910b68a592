// Memory on a package's device, and waiting for the device: package/runtime/tensors.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "tvm_calls.h"

namespace tvmbuild::detail {

constexpr size_t ALIGNMENT = 64;  // compiled code reads whole vectors

inline bool is_host(DLDevice device) { return device.device_type == kDLCPU; }
inline bool is_same(DLDevice one, DLDevice other) {
  return one.device_type == other.device_type && one.device_id == other.device_id;
}

// The name in tvm_ffi's spelling: cuda:0.
inline std::string name_of(DLDevice device) {
  std::string name = "device of type " + std::to_string(device.device_type);
  if (is_host(device)) name = "cpu";
  if (device.device_type == kDLCUDA) name = "cuda";
  if (device.device_type == kDLVulkan) name = "vulkan";
  return name + ":" + std::to_string(device.device_id);
}

inline DLDataType read_dtype(const std::string &name) {
  TVMFFIByteArray bytes{name.data(), name.size()};
  DLDataType dtype;
  if (TVMFFIDataTypeFromString(&bytes, &dtype) != 0) throw_raised(name);
  return dtype;
}

// A lock for work on a GPU. The first call of a CUDA package records a graph of its launches. It fails, and so do the
// others, if another thread of the process allocates or launches meanwhile, so this call holds the lock alone.
class DeviceUse {
 public:
  explicit DeviceUse(DLDevice device, bool alone = false) {
    if (device.device_type != kDLCUDA) return;
    std::lock_guard<std::mutex> turn(turns());  // so that others do not overtake a thread that waits to be alone
    if (alone) {
      alone_ = std::unique_lock<std::shared_mutex>(users());
    } else {
      shared_ = std::shared_lock<std::shared_mutex>(users());
    }
  }

 private:
  static std::mutex &turns() {
    static auto *mutex = new std::mutex;  // sessions may outlive static objects
    return *mutex;
  }
  static std::shared_mutex &users() {
    static auto *mutex = new std::shared_mutex;
    return *mutex;
  }
  std::shared_lock<std::shared_mutex> shared_;
  std::unique_lock<std::shared_mutex> alone_;
};

inline std::string show(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// Uninitialised memory that compiled code may read and write.
inline std::shared_ptr<void> allocate_uninitialised(size_t bytes, const std::string &name) {
  size_t whole = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;  // never 0
  void *memory = std::aligned_alloc(ALIGNMENT, whole);
  if (memory == nullptr) throw Error("no memory for " + name);
  return std::shared_ptr<void>(memory, std::free);
}

// Zeros that compiled code may read and write.
inline std::shared_ptr<void> allocate_aligned(size_t bytes, const std::string &name) {
  std::shared_ptr<void> memory = allocate_uninitialised(bytes, name);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

// An array in the host's memory as a TVM value; both hold a reference.
struct Shared {
  std::shared_ptr<void> memory;
  std::vector<int64_t> shape;
  DLManagedTensor managed = {};

  static void release(DLManagedTensor *managed) { delete static_cast<Shared *>(managed->manager_ctx); }
};

inline Value share(const TensorInfo &info, const std::shared_ptr<void> &memory) {
  auto shared = std::make_unique<Shared>();
  shared->memory = memory;
  shared->shape = info.shape;
  DLTensor &tensor = shared->managed.dl_tensor;
  tensor.dtype = read_dtype(info.dtype);
  tensor.data = memory.get();
  tensor.device = DLDevice{kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(shared->shape.size());
  tensor.shape = shared->shape.data();
  shared->managed.manager_ctx = shared.get();
  shared->managed.deleter = Shared::release;
  TVMFFIObjectHandle made = nullptr;
  if (TVMFFITensorFromDLPack(&shared->managed, ALIGNMENT, 1, &made) != 0) throw_raised("the input " + info.name);
  static_cast<void>(shared.release());  // TVM calls its deleter
  return Value(made, kTVMFFITensor);
}

// An uninitialised array.
inline Value allocate(const TensorInfo &info, DLDevice device) {
  std::vector<TVMFFIAny> sizes;
  sizes.reserve(info.shape.size());
  for (int64_t size : info.shape) sizes.push_back(argument_of(size));
  Value shape = invoke(find_global("ffi.Shape"), std::move(sizes), info.name);
  return invoke(find_global("runtime.TVMTensorAllocWithScope"),
                {shape.view(), argument_of(read_dtype(info.dtype)), argument_of(device), argument(kTVMFFINone)},
                "no memory for " + info.name + " on " + name_of(device));
}

inline void copy_to_device(const Value &from, const Value &to, const std::string &name) {
  invoke(find_global("runtime.TVMTensorCopyFromTo"), {from.view(), to.view()}, name + " cannot be copied");
}

// Copy a tensor from any device.
inline void copy_to_host(const Value &from, void *memory, size_t bytes, const std::string &name) {
  invoke(find_global("runtime.TVMTensorCopyToBytes"),
         {from.view(), argument_of(memory), argument_of(static_cast<int64_t>(bytes))}, name + " cannot be copied");
}

struct HostCopy {
  const Value &from;
  void *memory;
  const TensorInfo &info;
};

// Copy tensors of one device. Our Vulkan runtime waits once for all of them.
inline void copy_all_to_host(DLDevice device, const std::vector<HostCopy> &copies) {
  Value together = device.device_type == kDLVulkan ? look_up("tvmbuild_vulkan.copy_to_host") : Value();
  if (together.type() != kTVMFFIFunction) {
    for (const HostCopy &copy : copies) copy_to_host(copy.from, copy.memory, copy.info.bytes(), copy.info.name);
    return;
  }
  std::vector<TVMFFIAny> arguments;
  for (const HostCopy &copy : copies) arguments.insert(arguments.end(), {copy.from.view(), argument_of(copy.memory)});
  invoke(together, std::move(arguments), "the outputs cannot be copied");
}

// Whether kernels of the device use page-locked memory in place: an integrated card.
inline bool shares_memory(DLDevice device) {
  if (device.device_type != kDLCUDA) return false;
  Value ask = look_up("tvmbuild_cuda.shares_memory");
  return ask.type() == kTVMFFIFunction &&
         invoke(ask, {argument_of(int64_t{device.device_id})}, name_of(device)).view().v_int64 != 0;
}

// The same memory as a tensor of another device. None: the devices do not share it. A tensor for the host is ready.
inline Value share_with(DLDevice device, const Value &tensor, const std::string &name) {
  return invoke(find_global("tvmbuild_cuda.share"), {tensor.view(), argument_of(device)}, name);
}

// An uninitialised array of a GPU that the host fills in every call: on an integrated card both use the same memory.
inline Value allocate_for_host(const TensorInfo &info, DLDevice device) {
  if (!shares_memory(device) || info.count() == 0) return allocate(info, device);
  return share_with(device, allocate(info, DLDevice{kDLCUDAHost, device.device_id}), info.name);
}

// An uninitialised array of the host that the device copies from by itself. None: its runtime has no such memory.
inline Value allocate_known_to(DLDevice device, const TensorInfo &info) {
  constexpr size_t LEAST = 64 << 10;  // Vulkan devices allow some thousands of allocations
  const DLDevice host{kDLCPU, 0};
  if (device.device_type == kDLCUDA && look_up("tvmbuild_cuda.share").type() == kTVMFFIFunction) {
    DeviceUse use(device);
    return share_with(host, allocate(info, DLDevice{kDLCUDAHost, device.device_id}), info.name);
  }
  Value make = device.device_type == kDLVulkan ? look_up("tvmbuild_vulkan.allocate_host") : Value();
  if (make.type() != kTVMFFIFunction || info.bytes() < LEAST) return Value();
  Value like = allocate(info, host);
  return invoke(make, {argument_of(int64_t{device.device_id}), like.view()}, info.name);
}

// Wait until the device has done all its work.
inline void wait_for(DLDevice device, const std::string &what) {
  if (!is_host(device))
    invoke(find_global("runtime.Device_StreamSync"), {argument_of(device), argument_of(int64_t{0})}, what);
}

// The stream of a thread that has set no other one. The kernels of all sessions run there, one after another.
constexpr int64_t KERNELS = 0;

// Let the work that follows on one stream of a CUDA card wait for the work that is on another now.
inline void sync_streams(DLDevice device, int64_t from, int64_t to) {
  DeviceUse use(device);
  invoke(find_global("runtime.Device_StreamSyncFromTo"), {argument_of(device), argument_of(from), argument_of(to)},
         name_of(device));
}

// The bytes of a tensor, from the first to the one after the last.
struct MemoryRange {
  const char *first, *last;
};

inline MemoryRange range_of(const Value &value) {
  const DLTensor *tensor = TVMFFITensorGetDLTensorPtr(value.object());
  size_t bytes = (static_cast<size_t>(tensor->dtype.bits) * tensor->dtype.lanes + 7) / 8;
  for (int32_t axis = 0; axis < tensor->ndim; axis++) bytes *= static_cast<size_t>(tensor->shape[axis]);
  const char *first = static_cast<const char *>(tensor->data) + tensor->byte_offset;
  return {first, first + bytes};
}

inline TensorInfo describe(TVMFFIObjectHandle object, const std::string &name) {
  const DLTensor *tensor = TVMFFITensorGetDLTensorPtr(object);
  Value dtype;
  if (TVMFFIDataTypeToString(&tensor->dtype, dtype.any()) != 0) throw_raised(name);
  return {name, std::vector<int64_t>(tensor->shape, tensor->shape + tensor->ndim), dtype.text()};
}

}  // namespace tvmbuild::detail
