#include "blob.h"

#include <tvm/ffi/c_api.h>

#include "failure.h"
#include "reader.h"

namespace tvmbuild {
namespace {

constexpr uint64_t MAX_KERNELS = 1 << 20;
constexpr char PTX_MARK[16] = "tvmbuild PTX 1";  // the last bytes of machine code with PTX behind it
const char *const FORMATS[] = {"cubin", "ptx", "fatbin"};

bool damaged(const char *what) { return fail("CUDA: the module is damaged: %s", what); }

struct TextView {
  const char *data;
  size_t size;
  bool is(const char *text) const { return strlen(text) == size && memcmp(data, text, size) == 0; }
  // Whether it can be a name, and stand in a message.
  bool is_plain() const {
    for (size_t index = 0; index < size; index++)
      if (data[index] <= 0x20 || data[index] >= 0x7f) return false;
    return size < sizeof(Kernel::name);
  }
};

bool read_text(Reader &reader, TextView &text) {
  uint64_t size = reader.long_number();
  if (size > reader.left()) return damaged("it ends within a text");
  text.size = size;
  text.data = reinterpret_cast<const char *>(reader.bytes(size));
  return text.data != nullptr || damaged("it ends within a text");
}

bool read_name(Reader &reader, Kernel &kernel) {
  TextView key, name;
  if (!read_text(reader, key) || !read_text(reader, name)) return false;
  if (name.size == 0 || name.size >= sizeof(kernel.name)) return damaged("a kernel's name is empty or too long");
  if (!name.is_plain()) return damaged("a kernel's name has characters that no name has");
  if (key.size != name.size || memcmp(key.data, name.data, key.size) != 0) return damaged("a kernel has two names");
  memcpy(kernel.name, name.data, name.size);
  return true;
}

// An argument's type: DLPack's code, its bits and its lanes.
bool read_kind(const uint8_t *type, ArgumentKind &kind) {
  uint16_t lanes = 0;
  memcpy(&lanes, type + 2, sizeof(lanes));
  uint8_t code = type[0], bits = type[1];
  if (lanes != 1) return false;
  if (code == kDLOpaqueHandle && bits == 64)
    kind = POINTER;
  else if ((code == kDLInt || code == kDLUInt || code == kDLBool) && bits <= 64)
    kind = INTEGER;
  else if (code == kDLFloat && (bits == 32 || bits == 64))
    kind = bits == 32 ? FLOAT32 : FLOAT64;
  else
    return false;
  return true;
}

bool read_arguments(Reader &reader, Kernel &kernel) {
  uint64_t count = reader.long_number();
  if (count > MAX_ARGUMENTS && count <= reader.left())
    return fail("CUDA: kernel %s has %llu arguments, and this runtime takes %u", kernel.name,
                static_cast<unsigned long long>(count), MAX_ARGUMENTS);
  const uint8_t *types = reader.bytes(count <= MAX_ARGUMENTS ? count * 4 : ~size_t{0});
  if (types == nullptr) return damaged("it ends within a kernel's arguments");
  kernel.arguments = static_cast<uint32_t>(count);
  for (uint32_t index = 0; index < kernel.arguments; index++)
    if (!read_kind(types + size_t{4} * index, kernel.kinds[index]))
      return fail("CUDA: argument %u of kernel %s is of a type that this runtime does not pass", index, kernel.name);
  return true;
}

bool read_tag(const TextView &tag, Kernel &kernel) {
  static const char *const MEANINGS[] = {"blockIdx.x",
                                         "blockIdx.y",
                                         "blockIdx.z",
                                         "threadIdx.x",
                                         "threadIdx.y",
                                         "threadIdx.z",
                                         "tirx.use_dyn_shared_memory"};
  if (tag.is("tirx.use_programtic_dependent_launch")) return kernel.is_dependent = true;
  if (tag.is("tirx.use_cooperative_launch")) return kernel.is_cooperative = true;
  for (size_t meaning = 0; meaning < sizeof(MEANINGS) / sizeof(*MEANINGS); meaning++) {
    if (!tag.is(MEANINGS[meaning])) continue;
    if (kernel.extents == MAX_EXTENTS) return damaged("a kernel has too many extents");
    kernel.meanings[kernel.extents++] = static_cast<ExtentKind>(meaning);
    return true;
  }
  if (!tag.is_plain()) return damaged("a kernel's launch has characters that no name has");
  return fail("CUDA: kernel %s is launched with %.*s, which this runtime does not know", kernel.name,
              static_cast<int>(tag.size), tag.data);
}

bool read_tags(Reader &reader, Kernel &kernel) {
  uint64_t count = reader.long_number();
  if (count > reader.left()) return damaged("it ends within a kernel's launch");
  for (uint64_t index = 0; index < count; index++) {
    TextView tag;
    if (!read_text(reader, tag) || !read_tag(tag, kernel)) return false;
  }
  count = reader.long_number();
  if (count > MAX_ARGUMENTS) return damaged("it ends within a kernel's launch");
  for (uint64_t index = 0; index < count; index++)
    if (reader.number() != 0)
      return fail("CUDA: argument %llu of kernel %s is passed in a way that this runtime does not know",
                  static_cast<unsigned long long>(index), kernel.name);
  return reader.is_whole() || damaged("it ends within a kernel's launch");
}

// Find the PTX behind machine code (compiler/codegen/cubin.py): text with a zero at its end, its length, the mark.
bool find_ptx(Image &image) {
  const uint8_t *code = static_cast<const uint8_t *>(image.code);
  uint64_t length = 0;
  constexpr size_t tail = sizeof(length) + sizeof(PTX_MARK);
  if (image.size < tail || memcmp(code + image.size - sizeof(PTX_MARK), PTX_MARK, sizeof(PTX_MARK)) != 0) return true;
  memcpy(&length, code + image.size - tail, sizeof(length));
  if (length == 0 || length > image.size - tail) return damaged("its PTX is longer than its code");
  image.size -= tail + length;
  image.ptx = code + image.size;
  return code[image.size + length - 1] == 0 || damaged("its PTX has no end");
}

bool read_image(Reader &reader, const TextView &format, Image &image) {
  TextView code;
  if (!read_text(reader, code)) return false;
  for (const char *known : FORMATS)
    if (format.is(known)) image.format = known;
  if (image.format == nullptr && format.is_plain())
    return fail("CUDA: the package has its kernels as %.*s, not as machine code; build it again with NVRTC",
                static_cast<int>(format.size), format.data);
  if (image.format == nullptr) return damaged("its form has characters that no name has");
  image.code = code.data;
  image.size = code.size;
  if (format.is("cubin") && !find_ptx(image)) return false;
  if (format.is("cubin") && (image.size < 64 || memcmp(code.data,
                                                       "\x7f"
                                                       "ELF",
                                                       4) != 0))
    return damaged("its machine code is none");
  if (format.is("ptx") && (code.size == 0 || code.data[code.size - 1] != 0)) return damaged("its PTX has no end");
  return reader.left() == 0 || damaged("bytes follow its code");
}

}  // namespace

bool parse_blob(const uint8_t *bytes, size_t size, Image &image, List<Kernel> &kernels) {
  Reader reader(bytes, size);
  TextView format;
  if (!read_text(reader, format)) return false;
  uint64_t count = reader.long_number();
  if (count > MAX_KERNELS || count > reader.left()) return damaged("it has too many kernels");
  for (uint64_t index = 0; index < count; index++) {
    Kernel kernel = {};
    if (!read_name(reader, kernel) || !read_arguments(reader, kernel) || !read_tags(reader, kernel)) return false;
    for (const Kernel &other : kernels)
      if (strcmp(other.name, kernel.name) == 0)
        return fail("CUDA: the module is damaged: two kernels are called %s", kernel.name);
    kernels.add(kernel);
  }
  return read_image(reader, format, image);
}

}  // namespace tvmbuild
