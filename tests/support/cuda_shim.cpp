// A libcuda.so.1 without a card: memory is the CPU's, copies are done, and kernels are only written down. Work on
// several streams that uses the same memory must be ordered by events or waits (shim_order.h).
//
//   SHIM_LOG      a file with a line for each launch, capture, loading, copy, wait, allocation and mistake,
//                 and one at the end
//   SHIM_DEVICES  "NVIDIA H100:90,Orin:87:integrated": the devices and their architectures; default: one H100
//   SHIM_DRIVER   the CUDA version that the driver tells, 11040 for 11.4; default: 13000
//   SHIM_HEAP     each device's memory in bytes; default: 256 MiB
//   SHIM_FAIL     "cuMemAlloc_v2:2@3,cuStreamSynchronize:700": what a call returns; the third one, every one. After
//                 700 and the other errors that end a context every later call returns the same.
//
// With SHIM_OLD defined it has no function that came after CUDA 11.4.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_types.h"
#include "shim_order.h"

using namespace tvmbuild;

#define SHIM extern "C" __attribute__((visibility("default"))) CUresult

struct tvmbuild::CUctx_st {
  int device;
};
struct tvmbuild::CUmod_st {
  int functions;
  const char *elf;
};
struct tvmbuild::CUfunc_st {
  CUmod_st *module;
  int arguments;  // 0 if they are unknown
  char name[256];
};
// A launch, and the addresses among its arguments.
struct Line {
  Line *next;
  char text[400];
  CUdeviceptr pointers[shim::POINTERS];
};
struct tvmbuild::CUstream_st {
  int number;
  bool is_capturing;
  Line *first, **last;
};
struct tvmbuild::CUevent_st {
  bool is_recorded;
  shim::Clock clock;
};
struct tvmbuild::CUgraph_st {
  Line *first;
};
struct tvmbuild::CUgraphExec_st {
  Line *first;
};

namespace {

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
CUctx_st contexts[8];
thread_local CUcontext current;
CUresult ended = CUDA_SUCCESS;  // after a sticky error
int modules, streams, events, graphs, host_allocations;
struct Allocation {
  char *memory;
  size_t size;
  int device;
  bool is_host;
} allocations[65536];

const char *option(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

__attribute__((format(printf, 1, 2))) void note(const char *format, ...) {
  const char *path = getenv("SHIM_LOG");
  if (path == nullptr) return;
  FILE *file = fopen(path, "a");
  if (file == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(file, format, arguments);
  va_end(arguments);
  fputc('\n', file);
  fclose(file);
}

struct AtEnd {
  ~AtEnd() {
    int left = 0;
    for (Allocation &each : allocations) left += each.memory != nullptr && !each.is_host;
    note("end allocations=%d modules=%d streams=%d events=%d graphs=%d", left, modules, streams, events, graphs);
  }
};
AtEnd *at_end_once() {
  static AtEnd at_end;
  return &at_end;
}

// The text of device `index` in SHIM_DEVICES; false: there are fewer.
bool find_device(int index, char *name, int &arch, bool &is_integrated) {
  const char *text = option("SHIM_DEVICES", "NVIDIA H100 shim:90");
  for (; index > 0; index--) {
    text = strchr(text, ',');
    if (text == nullptr) return false;
    text++;
  }
  const char *colon = strchr(text, ':');
  if (colon == nullptr) return false;
  size_t length = static_cast<size_t>(colon - text);
  memcpy(name, text, length);
  name[length] = 0;
  char *end;
  arch = static_cast<int>(strtol(colon + 1, &end, 10));
  is_integrated = strncmp(end, ":integrated", 11) == 0;
  return true;
}

int driver() { return atoi(option("SHIM_DRIVER", "13000")); }
size_t heap() { return strtoull(option("SHIM_HEAP", "268435456"), nullptr, 10); }

// What SHIM_FAIL wants of this call of a function.
CUresult planned(const char *name) {
  static struct {
    char name[64];
    int calls;
  } counts[64];
  int calls = 0;
  for (auto &each : counts) {
    if (each.name[0] == 0) snprintf(each.name, sizeof(each.name), "%s", name);
    if (strcmp(each.name, name) != 0) continue;
    calls = ++each.calls;
    break;
  }
  if (ended != CUDA_SUCCESS) return ended;
  size_t length = strlen(name);
  for (const char *text = option("SHIM_FAIL", ""); *text != 0;) {
    if (strncmp(text, name, length) == 0 && text[length] == ':') {
      char *end;
      long result = strtol(text + length + 1, &end, 10), wanted = *end == '@' ? strtol(end + 1, &end, 10) : calls;
      if (wanted == calls) {
        bool is_sticky = result >= 700 && result < 720 && result != 701;
        if (is_sticky) ended = static_cast<CUresult>(result);
        return static_cast<CUresult>(result);
      }
    }
    text = strchr(text, ',');
    if (text == nullptr) break;
    text++;
  }
  return CUDA_SUCCESS;
}

#define BEGIN(name)                     \
  pthread_mutex_lock(&lock);            \
  CUresult shim_result = planned(name); \
  pthread_mutex_unlock(&lock);          \
  if (shim_result != CUDA_SUCCESS) return shim_result;
#define NEED_CONTEXT(name)                       \
  BEGIN(name)                                    \
  if (current == nullptr) {                      \
    note("mistake: %s without a context", name); \
    return static_cast<CUresult>(201);           \
  }

// The number of arguments of a kernel in machine code: its section .nv.info.NAME has an entry for each. 0 without one.
int count_arguments(const char *elf, const char *kernel) {
  auto number = [&](uint64_t at, int size) {
    uint64_t value = 0;
    memcpy(&value, elf + at, static_cast<size_t>(size));
    return value;
  };
  uint64_t sections = number(40, 8), count = number(60, 2), names = number(62, 2);
  if (sections == 0) return 0;
  uint64_t texts = number(sections + 64 * names + 24, 8);
  int found = 0;
  for (uint64_t index = 0; index < count; index++) {
    uint64_t section = sections + 64 * index, place = number(section + 24, 8), size = number(section + 32, 8);
    const char *name = elf + texts + number(section, 4);
    if (strncmp(name, ".nv.info.", 9) != 0 || strcmp(name + 9, kernel) != 0) continue;
    for (uint64_t at = place; at + 4 <= place + size; at += 4)
      if (number(at, 4) == 0x000c1704) found++;  // an argument, in 12 bytes
  }
  return found;
}

shim::Order order;  // under the lock

int number_of(CUstream stream) { return stream != nullptr ? stream->number : 0; }

// The work on a stream that begins now uses memory of the card, or page-locked memory.
void use(CUstream stream, CUdeviceptr first, size_t size, bool is_write, const char *what) {
  const shim::Use *other = order.add(number_of(stream), first, size, is_write, what);
  if (other != nullptr) note("mistake: no order of %s and %s", what, other->what);
}

CUresult mistake(const char *what) {
  note("mistake: %s", what);
  return CUDA_ERROR_INVALID_VALUE;
}

Allocation *find(CUdeviceptr address, size_t size) {
  for (Allocation &each : allocations) {
    CUdeviceptr start = reinterpret_cast<CUdeviceptr>(each.memory);
    if (start != 0 && address >= start && address + size <= start + each.size) return &each;
  }
  return nullptr;
}

void capture(CUstream stream, const Line &launched) {
  Line *line = static_cast<Line *>(malloc(sizeof(Line)));
  *line = launched;
  *stream->last = line;
  stream->last = &line->next;
}

// The streams with kernels of unknown arguments for which nothing has waited.
CUstream unfinished[64];
int unfinished_streams, captures;

void begin_work(CUstream stream) {
  pthread_mutex_lock(&lock);
  bool is_known = unfinished_streams == 64;
  for (int index = 0; index < unfinished_streams; index++) is_known = is_known || unfinished[index] == stream;
  if (!is_known) unfinished[unfinished_streams++] = stream;
  pthread_mutex_unlock(&lock);
}

void finish_work(CUstream stream) {
  pthread_mutex_lock(&lock);
  for (int index = 0; index < unfinished_streams; index++)
    if (unfinished[index] == stream) unfinished[index] = unfinished[--unfinished_streams];
  pthread_mutex_unlock(&lock);
}

void finish_all_work() {
  pthread_mutex_lock(&lock);
  unfinished_streams = 0;
  pthread_mutex_unlock(&lock);
}

// A kernel may read and write what its addresses point to, up to the end of the allocation.
void run_kernel(CUstream stream, const Line &line) {
  pthread_mutex_lock(&lock);
  order.begin(number_of(stream));
  for (int index = 0; index < shim::POINTERS && line.pointers[index] != 0; index++)
    if (Allocation *found = find(line.pointers[index], 1))
      use(stream, line.pointers[index],
          reinterpret_cast<CUdeviceptr>(found->memory) + found->size - line.pointers[index], true, line.text);
  pthread_mutex_unlock(&lock);
}

void wait_on_host(CUstream stream) {
  pthread_mutex_lock(&lock);
  order.host_waits(order.of(number_of(stream)));
  pthread_mutex_unlock(&lock);
}

void wait_on_host_for_all() {
  pthread_mutex_lock(&lock);
  order.host_waits_for_all();
  pthread_mutex_unlock(&lock);
}

bool is_capturing(CUstream stream) { return stream != nullptr && stream->is_capturing; }

CUresult launch(CUfunction function, const unsigned *grid, const unsigned *block, unsigned shared, CUstream stream,
                const char *flags, void **arguments) {
  if (arguments == nullptr) return mistake("a launch without arguments");
  Line line = {};
  char(&text)[400] = line.text;
  snprintf(text, sizeof(text), "launch %s grid=%u,%u,%u block=%u,%u,%u shared=%u%s", function->name, grid[0], grid[1],
           grid[2], block[0], block[1], block[2], shared, flags);
  for (int index = 0, pointers = 0; index < function->arguments && pointers < shim::POINTERS; index++) {
    CUdeviceptr value = *static_cast<CUdeviceptr *>(arguments[index]);
    if (find(value, 1) != nullptr) line.pointers[pointers++] = value;
  }
  if (strncmp(function->name, "show", 4) == 0)  // its name ends with the number of arguments to write down
    for (int index = 0; index < atoi(function->name + 4); index++) {
      size_t length = strlen(text);
      snprintf(text + length, sizeof(text) - length, " %llx", *static_cast<unsigned long long *>(arguments[index]));
    }
  if (is_capturing(stream)) {
    capture(stream, line);
  } else {
    note("%s", text);
    if (function->arguments == 0) begin_work(stream);
    run_kernel(stream, line);
  }
  return CUDA_SUCCESS;
}

void free_lines(Line *line) {
  while (line != nullptr) {
    Line *next = line->next;
    free(line);
    line = next;
  }
}

}  // namespace

SHIM cuInit(unsigned) {
  BEGIN("cuInit");
  at_end_once();
  return CUDA_SUCCESS;
}
SHIM cuDriverGetVersion(int *version) {
  *version = driver();
  return CUDA_SUCCESS;
}
SHIM cuDeviceGetCount(int *count) {
  char name[256];
  int arch;
  bool is_integrated;
  for (*count = 0; find_device(*count, name, arch, is_integrated);) ++*count;
  return *count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
SHIM cuDeviceGet(CUdevice *device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
SHIM cuDeviceGetName(char *name, int, CUdevice device) {
  int arch;
  bool is_integrated;
  return find_device(device, name, arch, is_integrated) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SHIM cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  char name[256];
  int arch = 0;
  bool is_integrated = false;
  if (!find_device(device, name, arch, is_integrated)) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      *value = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = 49152;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      *value = is_integrated;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = arch / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = arch % 10;
      break;
    default:
      *value = 132;
  }
  return CUDA_SUCCESS;
}
SHIM cuDeviceTotalMem_v2(size_t *size, CUdevice) {
  *size = heap();
  return CUDA_SUCCESS;
}
SHIM cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  BEGIN("cuDevicePrimaryCtxRetain");
  contexts[device].device = device;
  *context = &contexts[device];
  return CUDA_SUCCESS;
}
SHIM cuCtxGetCurrent(CUcontext *context) {
  *context = current;
  return CUDA_SUCCESS;
}
SHIM cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
SHIM cuCtxSynchronize() {
  NEED_CONTEXT("cuCtxSynchronize");
  note("wait for the card");
  finish_all_work();
  wait_on_host_for_all();
  return captures > 0 ? mistake("a wait for the card ends a capture") : CUDA_SUCCESS;
}
static size_t used_memory(int device) {
  size_t used = 0;
  for (Allocation &each : allocations)
    if (each.memory != nullptr && !each.is_host && each.device == device) used += each.size;
  return used;
}
SHIM cuMemGetInfo_v2(size_t *available, size_t *total) {
  NEED_CONTEXT("cuMemGetInfo_v2");
  *total = heap();
  *available = *total - used_memory(current->device);
  return CUDA_SUCCESS;
}
static CUresult allocate(char **memory, size_t size, bool is_host) {
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (is_host || (size <= heap() && used_memory(current->device) + size <= heap()))
    for (Allocation &each : allocations) {
      if (each.memory != nullptr) continue;
      each = {static_cast<char *>(aligned_alloc(256, (size + 255) / 256 * 256)), size, current->device, is_host};
      *memory = each.memory;
      result = CUDA_SUCCESS;
      break;
    }
  pthread_mutex_unlock(&lock);
  if (result == CUDA_SUCCESS) note("allocate %zu%s", size, is_host ? " on the host" : "");
  return result;
}
static CUresult release(char *memory, bool is_host) {
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  for (Allocation &each : allocations) {
    if (each.memory != memory || each.is_host != is_host) continue;
    if (const shim::Use *user = order.find_user(reinterpret_cast<CUdeviceptr>(memory), each.size))
      note("mistake: memory is released under %s", user->what);
    memset(memory, 0xdd, each.size);
    free(memory);
    each.memory = nullptr;
    result = CUDA_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&lock);
  return result == CUDA_SUCCESS ? result : mistake("memory that is not there is released");
}
SHIM cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  NEED_CONTEXT("cuMemAlloc_v2");
  return size == 0 ? mistake("an allocation of nothing") : allocate(reinterpret_cast<char **>(address), size, false);
}
SHIM cuMemFree_v2(CUdeviceptr address) {
  NEED_CONTEXT("cuMemFree_v2");
  finish_all_work();
  wait_on_host_for_all();
  return release(reinterpret_cast<char *>(address), false);
}
SHIM cuMemHostAlloc(void **memory, size_t size, unsigned) {
  NEED_CONTEXT("cuMemHostAlloc");
  return allocate(reinterpret_cast<char **>(memory), size, true);
}
SHIM cuMemFreeHost(void *memory) {
  NEED_CONTEXT("cuMemFreeHost");
  char name[256];
  int arch;
  bool is_integrated = false;
  find_device(current->device, name, arch, is_integrated);
  if (is_integrated && unfinished_streams > 0) note("mistake: memory of the host is released under a kernel");
  return release(static_cast<char *>(memory), true);
}
SHIM cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
  NEED_CONTEXT("cuPointerGetAttribute");
  pthread_mutex_lock(&lock);
  Allocation *found = find(address, 1);
  pthread_mutex_unlock(&lock);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    *static_cast<CUdeviceptr *>(value) = address;
  else
    *static_cast<CUmemorytype *>(value) = found->is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  return CUDA_SUCCESS;
}
// Whether a copy has an order: one with pageable memory of the host ends before the call does.
static bool is_page_locked(const void *memory, size_t size) {
  Allocation *found = find(reinterpret_cast<CUdeviceptr>(memory), size);
  return found != nullptr && found->is_host;
}
static CUresult copy(const char *name, void *to, const void *from, size_t size, CUstream stream) {
  if (is_capturing(stream)) return mistake("a copy is captured");
  CUdeviceptr target = reinterpret_cast<CUdeviceptr>(to), source = reinterpret_cast<CUdeviceptr>(from);
  pthread_mutex_lock(&lock);
  char what[64];
  snprintf(what, sizeof(what), "%s %zu", name, size);
  order.begin(number_of(stream));
  if (find(source, size) != nullptr) use(stream, source, size, false, what);
  if (find(target, size) != nullptr) use(stream, target, size, true, what);
  pthread_mutex_unlock(&lock);
  memcpy(to, from, size);
  note("%s %zu", name, size);
  return CUDA_SUCCESS;
}
static bool is_on_card(CUdeviceptr address, size_t size) {
  Allocation *found = find(address, size);
  return found != nullptr && !found->is_host;
}
SHIM cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  NEED_CONTEXT("cuMemcpyHtoDAsync_v2");
  if (!is_on_card(to, size)) return mistake("a copy beyond the card's memory");
  return copy("to device", reinterpret_cast<void *>(to), from, size, stream);
}
SHIM cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  NEED_CONTEXT("cuMemcpyDtoHAsync_v2");
  if (!is_on_card(from, size)) return mistake("a copy beyond the card's memory");
  CUresult result = copy("to host", to, reinterpret_cast<const void *>(from), size, stream);
  if (result == CUDA_SUCCESS && !is_page_locked(to, size)) wait_on_host(stream);
  return result;
}
SHIM cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  NEED_CONTEXT("cuMemcpyDtoDAsync_v2");
  if (find(from, size) == nullptr || !is_on_card(to, size)) return mistake("a copy beyond the card's memory");
  return copy("within", reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), size, stream);
}
SHIM cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size, CUstream stream) {
  NEED_CONTEXT("cuMemcpyPeerAsync");
  if (find(from, size) == nullptr || !is_on_card(to, size)) return mistake("a copy beyond the card's memory");
  return copy("between", reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), size, stream);
}
SHIM cuStreamCreate(CUstream *stream, unsigned) {
  NEED_CONTEXT("cuStreamCreate");
  *stream = new CUstream_st();
  pthread_mutex_lock(&lock);
  (*stream)->number = order.add_stream();
  pthread_mutex_unlock(&lock);
  streams++;
  return CUDA_SUCCESS;
}
SHIM cuStreamDestroy_v2(CUstream stream) {
  NEED_CONTEXT("cuStreamDestroy_v2");
  if (stream->is_capturing) __atomic_sub_fetch(&captures, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&lock);
  order.remove_stream(stream->number);
  pthread_mutex_unlock(&lock);
  delete stream;
  streams--;
  return CUDA_SUCCESS;
}
SHIM cuStreamSynchronize(CUstream stream) {
  NEED_CONTEXT("cuStreamSynchronize");
  note("wait");
  finish_work(stream);
  wait_on_host(stream);
  return is_capturing(stream) ? mistake("a wait is captured") : CUDA_SUCCESS;
}
SHIM cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  NEED_CONTEXT("cuStreamWaitEvent");
  note("wait for an event");
  pthread_mutex_lock(&lock);
  order.wait(number_of(stream), event->clock);
  pthread_mutex_unlock(&lock);
  return event->is_recorded ? CUDA_SUCCESS : mistake("an event that was never recorded");
}
SHIM cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  NEED_CONTEXT("cuStreamBeginCapture_v2");
  if (stream == nullptr) return mistake("the default stream is captured");
  stream->is_capturing = true;
  __atomic_add_fetch(&captures, 1, __ATOMIC_SEQ_CST);
  stream->first = nullptr;
  stream->last = &stream->first;
  return CUDA_SUCCESS;
}
SHIM cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  NEED_CONTEXT("cuStreamEndCapture");
  stream->is_capturing = false;
  __atomic_sub_fetch(&captures, 1, __ATOMIC_SEQ_CST);
  *graph = new CUgraph_st{stream->first};
  graphs++;
  return CUDA_SUCCESS;
}
SHIM cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long) {
  NEED_CONTEXT("cuGraphInstantiateWithFlags");
  *executable = new CUgraphExec_st();
  Line **last = &(*executable)->first;
  int count = 0;
  for (Line *line = graph->first; line != nullptr; line = line->next, count++) {
    *last = static_cast<Line *>(malloc(sizeof(Line)));
    **last = *line;
    (*last)->next = nullptr;
    last = &(*last)->next;
  }
  note("graph of %d", count);
  graphs++;
  return CUDA_SUCCESS;
}
SHIM cuGraphUpload(CUgraphExec, CUstream) {
  NEED_CONTEXT("cuGraphUpload");
  return CUDA_SUCCESS;
}
SHIM cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  NEED_CONTEXT("cuGraphLaunch");
  note("graph");
  for (Line *line = executable->first; line != nullptr; line = line->next) {
    note("  %s", line->text);
    run_kernel(stream, *line);
  }
  return CUDA_SUCCESS;
}
SHIM cuGraphDestroy(CUgraph graph) {
  NEED_CONTEXT("cuGraphDestroy");
  free_lines(graph->first);
  delete graph;
  graphs--;
  return CUDA_SUCCESS;
}
SHIM cuGraphExecDestroy(CUgraphExec executable) {
  NEED_CONTEXT("cuGraphExecDestroy");
  free_lines(executable->first);
  delete executable;
  graphs--;
  return CUDA_SUCCESS;
}
SHIM cuEventCreate(CUevent *event, unsigned) {
  NEED_CONTEXT("cuEventCreate");
  *event = new CUevent_st();
  events++;
  return CUDA_SUCCESS;
}
SHIM cuEventRecord(CUevent event, CUstream stream) {
  NEED_CONTEXT("cuEventRecord");
  event->is_recorded = true;
  pthread_mutex_lock(&lock);
  order.begin(number_of(stream));
  event->clock = order.of(number_of(stream));
  pthread_mutex_unlock(&lock);
  return is_capturing(stream) ? mistake("an event is captured") : CUDA_SUCCESS;
}
SHIM cuEventSynchronize(CUevent event) {
  NEED_CONTEXT("cuEventSynchronize");
  pthread_mutex_lock(&lock);
  order.host_waits(event->clock);
  pthread_mutex_unlock(&lock);
  return event->is_recorded ? CUDA_SUCCESS : mistake("an event that was never recorded");
}
SHIM cuEventElapsedTime(float *milliseconds, CUevent first, CUevent second) {
  NEED_CONTEXT("cuEventElapsedTime");
  *milliseconds = 2.5F;
  return first->is_recorded && second->is_recorded ? CUDA_SUCCESS : mistake("an event that was never recorded");
}
SHIM cuEventDestroy_v2(CUevent event) {
  NEED_CONTEXT("cuEventDestroy_v2");
  delete event;
  events--;
  return CUDA_SUCCESS;
}
SHIM cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
  NEED_CONTEXT("cuModuleLoadDataEx");
  const unsigned char *elf = static_cast<const unsigned char *>(image);
  char name[256];
  int arch = 0, wanted = 0;
  bool is_integrated = false;
  find_device(current->device, name, arch, is_integrated);
  if (memcmp(elf, "\177ELF", 4) == 0) {
    bool is_new = elf[8] >= 8;  // the form that CUDA 13 writes
    wanted = elf[is_new ? 49 : 48];
    if (is_new && driver() < 13000) {
      for (unsigned index = 0; index < count; index++)
        if (options[index] == CU_JIT_ERROR_LOG_BUFFER) strcpy(static_cast<char *>(values[index]), "shim: newer form");
      return CUDA_ERROR_INVALID_IMAGE;
    }
    if (wanted / 10 != arch / 10 || wanted > arch) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  } else if (const char *target = strstr(static_cast<const char *>(image), ".target sm_")) {
    const char *version = strstr(static_cast<const char *>(image), ".version ");
    int written = version != nullptr ? static_cast<int>(strtod(version + 9, nullptr) * 10 + 0.5) : 0;
    int known = driver() / 1000 * 10 + driver() % 1000 / 10 - 40;  // 12.2 reads PTX 8.2
    wanted = atoi(target + 11);
    if (written > known) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (wanted > arch) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    note("compile ptx of sm_%d for sm_%d", wanted, arch);
  }
  note("load sm_%d on device %d", wanted, current->device);
  *module = new CUmod_st();
  (*module)->elf = memcmp(elf, "\177ELF", 4) == 0 ? static_cast<const char *>(image) : nullptr;
  modules++;
  return CUDA_SUCCESS;
}
SHIM cuModuleUnload(CUmodule module) {
  NEED_CONTEXT("cuModuleUnload");
  note("unload");
  delete module;  // its functions stay, so that a late launch shows
  modules--;
  return CUDA_SUCCESS;
}
SHIM cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  NEED_CONTEXT("cuModuleGetFunction");
  *function = new CUfunc_st();
  (*function)->module = module;
  module->functions++;
  if (module->elf != nullptr) (*function)->arguments = count_arguments(module->elf, name);
  snprintf((*function)->name, sizeof((*function)->name), "%s", name);
  return CUDA_SUCCESS;
}
SHIM cuFuncSetAttribute(CUfunction function, CUfunction_attribute, int value) {
  NEED_CONTEXT("cuFuncSetAttribute");
  note("allow %d bytes for %s", value, function->name);
  return value <= 232448 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SHIM cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                    unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **) {
  NEED_CONTEXT("cuLaunchKernel");
  const unsigned grid[] = {x, y, z}, block[] = {block_x, block_y, block_z};
  return launch(function, grid, block, shared, stream, "", arguments);
}
SHIM cuLaunchCooperativeKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments) {
  NEED_CONTEXT("cuLaunchCooperativeKernel");
  const unsigned grid[] = {x, y, z}, block[] = {block_x, block_y, block_z};
  return launch(function, grid, block, shared, stream, " cooperative", arguments);
}
// TVM's own library is linked to these.
SHIM cuModuleLoadData(CUmodule *, const void *) { return CUDA_ERROR_INVALID_VALUE; }
#ifndef SHIM_OLD
SHIM cuTensorMapEncodeTiled() { return CUDA_ERROR_INVALID_VALUE; }
SHIM cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **) {
  NEED_CONTEXT("cuLaunchKernelEx");
  char flags[64] = "";
  for (unsigned index = 0; index < config->numAttrs; index++)
    strcat(flags, config->attrs[index].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? " cooperative" : " dependent");
  return launch(function, config->gridDim, config->blockDim, config->sharedMemBytes, config->hStream, flags, arguments);
}
SHIM cuFuncLoad(CUfunction) {
  NEED_CONTEXT("cuFuncLoad");
  return CUDA_SUCCESS;
}
#endif
SHIM cuGetErrorName(CUresult, const char **text) {
  *text = "CUDA_ERROR_SHIM";
  return CUDA_SUCCESS;
}
SHIM cuGetErrorString(CUresult result, const char **text) {
  *text = result == CUDA_ERROR_OUT_OF_MEMORY     ? "out of memory"
          : result == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
          : result == CUDA_ERROR_LAUNCH_FAILED   ? "unspecified launch failure"
                                                 : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
