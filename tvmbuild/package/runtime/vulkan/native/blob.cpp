#include "blob.h"

#include "crc32.h"
#include "failure.h"
#include "reader.h"

namespace tvmbuild {
namespace {

constexpr uint8_t MAGIC[8] = {'t', 'v', 'm', 'b', 'S', 'P', 'V', 1};
constexpr size_t HEADER = 16;  // bytes outside the CRC
constexpr uint32_t MAX_KERNELS = 1 << 20, SPIRV_MAGIC = 0x07230203, SPIRV_HEADER_WORDS = 5;

uint64_t kernel_ids;

bool damaged(const char *what) { return fail("Vulkan: the module is damaged: %s", what); }

bool read_name(Reader &reader, Kernel &kernel) {
  uint32_t length = reader.number();
  const uint8_t *name = reader.bytes(length);
  if (name == nullptr) return damaged("it ends within a name");
  if (length == 0 || length >= sizeof(kernel.name)) return damaged("a kernel's name is empty or too long");
  for (uint32_t index = 0; index < length; index++)
    if (name[index] <= 0x20 || name[index] >= 0x7f) return damaged("a kernel's name has characters that no name has");
  memcpy(kernel.name, name, length);
  return true;
}

bool read_arguments(Reader &reader, Kernel &kernel) {
  kernel.buffers = reader.number();
  if (kernel.buffers > MAX_BUFFERS && kernel.buffers <= reader.left())
    return fail("Vulkan: kernel %s has %u buffers, and this runtime takes %u", kernel.name, kernel.buffers,
                MAX_BUFFERS);
  kernel.flags = reader.bytes(kernel.buffers);
  kernel.scalars = reader.number();
  if (kernel.scalars > MAX_SCALARS) return damaged("a kernel has too many scalars");
  kernel.kinds = reader.bytes(kernel.scalars);
  kernel.extents = reader.number();
  if (!reader.is_whole()) return damaged("it ends within a kernel's arguments");
  for (uint32_t index = 0; index < kernel.buffers; index++)
    if (kernel.flags[index] > 1) return damaged("a buffer has unknown flags");
  for (uint32_t index = 0; index < kernel.scalars; index++)
    if (kernel.kinds[index] > SCALAR_BOOL) return damaged("a scalar is of an unknown kind");
  if (kernel.extents > MAX_EXTENTS) return damaged("a kernel has too many extents");
  return true;
}

bool read_shape(Reader &reader, Kernel &kernel) {
  const uint8_t *axes = reader.bytes(3);
  for (uint32_t &local : kernel.local) local = reader.number();
  kernel.shared_bytes = reader.number();
  kernel.features = reader.number();
  if (!reader.is_whole()) return damaged("it ends within a kernel's sizes");
  memcpy(kernel.axes, axes, 3);
  for (int8_t axis : kernel.axes)
    if (axis < FOLDED || axis >= static_cast<int>(kernel.extents)) return damaged("a kernel's groups name no extent");
  if (kernel.axes[0] < (kernel.axes[1] == FOLDED || kernel.axes[2] == FOLDED ? 0 : -1))
    return damaged("a kernel's groups name no extent");
  for (uint32_t local : kernel.local)
    if (local == 0 || local > 1 << 16) return damaged("a kernel's groups have an impossible size");
  if (kernel.features >> FEATURES != 0) return damaged("a kernel needs unknown features");
  return true;
}

bool read_code(Reader &reader, Kernel &kernel) {
  kernel.words = reader.number();
  kernel.spirv = reader.bytes(4 * static_cast<size_t>(kernel.words));
  if (kernel.spirv == nullptr) return damaged("it ends within a kernel's code");
  uint32_t magic = 0;
  if (kernel.words > SPIRV_HEADER_WORDS) memcpy(&magic, kernel.spirv, 4);
  return magic == SPIRV_MAGIC || damaged("a kernel's code is no SPIR-V");
}

}  // namespace

bool parse_blob(const uint8_t *bytes, size_t size, List<Kernel> &kernels) {
  if (size < HEADER + 4) return damaged("it is too short");
  if (memcmp(bytes, MAGIC, sizeof(MAGIC)) != 0)
    return damaged("it is not a module of tvmbuild's, or of another version");
  Reader header(bytes + sizeof(MAGIC), HEADER - sizeof(MAGIC));
  if (header.number() != size) return damaged("its length is not what it says");
  if (header.number() != crc32(bytes + HEADER, size - HEADER)) return damaged("its checksum does not fit");
  Reader reader(bytes + HEADER, size - HEADER);
  uint32_t count = reader.number();
  if (count > MAX_KERNELS || count > reader.left()) return damaged("it has too many kernels");
  for (uint32_t index = 0; index < count; index++) {
    Kernel kernel = {};
    kernel.id = __atomic_add_fetch(&kernel_ids, 1, __ATOMIC_RELAXED);
    if (!read_name(reader, kernel) || !read_arguments(reader, kernel) || !read_shape(reader, kernel) ||
        !read_code(reader, kernel))
      return false;
    for (const Kernel &other : kernels)
      if (strcmp(other.name, kernel.name) == 0)
        return fail("Vulkan: the module is damaged: two kernels are called %s", kernel.name);
    kernels.add(kernel);
  }
  return reader.left() == 0 || damaged("bytes follow its last kernel");
}

}  // namespace tvmbuild
