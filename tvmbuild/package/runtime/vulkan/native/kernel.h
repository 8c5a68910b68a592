// A kernel of a module, and its pipeline on each device.
#pragma once
#include "device_choice.h"
#include "list.h"
#include "memory.h"

namespace tvmbuild {

constexpr uint32_t MAX_BUFFERS = 64, MAX_SCALARS = 16, MAX_EXTENTS = 12;

constexpr int8_t FOLDED = -2;           // the axis continues x
constexpr uint32_t MAX_GROUPS = 65535;  // in each direction: the limit that every device supports

enum ScalarKind : uint8_t {
  SCALAR_INT32 = 0,
  SCALAR_INT64 = 1,
  SCALAR_FLOAT32 = 2,
  SCALAR_UINT32 = 3,
  SCALAR_BOOL = 4
};

struct KernelOnDevice : OnHeap {
  VkShaderModule shader;
  VkDescriptorSetLayout set_layout;
  VkPipelineLayout layout;
  VkPipeline pipeline;
  bool pushes;  // descriptors
};

// The texts and arrays point into the module's bytes.
struct Kernel {
  uint64_t id;  // never used again
  char name[256];
  uint32_t buffers, scalars, extents;
  const uint8_t *flags, *kinds;
  int8_t axes[3];  // the extent that is the number of groups in x, y, z; -1: it is 1; or FOLDED
  uint32_t local[3], shared_bytes, features, words;
  const uint8_t *spirv;
  KernelOnDevice *on[MAX_DEVICES];

  bool is_written(uint32_t buffer) const { return !(flags[buffer] & 1); }
};

// Make the kernel's pipeline unless it exists. The device's lock is NOT held: a driver may take seconds.
KernelOnDevice *prepare_kernel(Device &device, Kernel &kernel);
// Release it. The device has done all work that uses it, and its lock is held.
void release_kernel(Device &device, Kernel &kernel);

// The number of bytes from `offset` on that a descriptor may cover: the rest, up to the device's limit.
uint64_t descriptor_range(const Device &device, const Memory &memory, uint64_t offset);

// Give the launch to the thread's queue.
bool launch_kernel(Device &device, Kernel &kernel, const uint64_t *addresses, const uint64_t *scalars,
                   const int64_t *extents);

}  // namespace tvmbuild
