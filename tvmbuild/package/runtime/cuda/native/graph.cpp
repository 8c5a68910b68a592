#include "graph.h"

#include <pthread.h>

#include "basic_device_api.h"
#include "device.h"
#include "failure.h"
#include "ffi.h"
#include "lock.h"
#include "sharing.h"

namespace tvmbuild {
namespace {

TVMFFIObjectHandle invoke_closure, array_size, array_item;  // TVM's functions

// TVM makes one function of graphs that look alike, and numbers the places that call it: each has memory of its own.
struct Graph {
  int64_t place;
  Device *device;
  CUgraphExec executable;
  TVMFFIAny result;
  uint64_t dimensions;
  int64_t *shape;  // the numbers that the captured launches depend on
};

struct KeptMemory {
  int64_t place;
  TVMFFIAny value;
};

// What belongs to a function of a virtual machine, from its first call until the machine is gone. Each machine has
// function objects of its own, so an object's deleter tells when: it is replaced by one that releases this first.
struct Kept : OnHeap {
  TVMFFIObject *function;
  void (*deleter)(void *, int);
  List<KeptMemory> memories;
  List<Graph> graphs;
};

pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
List<Kept *> table;

void drop(const TVMFFIAny &value) {
  if (value.type_index >= kTVMFFIStaticObjectBegin && value.v_obj != nullptr) TVMFFIObjectDecRef(value.v_obj);
}

TVMFFIAny share(const TVMFFIAny &value) {
  if (value.type_index >= kTVMFFIStaticObjectBegin && value.v_obj != nullptr) TVMFFIObjectIncRef(value.v_obj);
  return value;
}

void release(Kept *kept) {
  for (Graph &graph : kept->graphs) {
    if (UsedDevice device = started_device(graph.device->index)) device->cu->GraphExecDestroy(graph.executable);
    drop(graph.result);
    free(graph.shape);
  }
  for (const KeptMemory &memory : kept->memories) drop(memory.value);
  delete kept;
}

void forget_function(void *object, int flags) {
  Kept *found = nullptr;
  {
    Lock lock(table_lock);
    for (size_t index = 0; index < table.size(); index++) {
      if (table[index]->function != object) continue;
      found = table[index];
      table.remove(index);
      break;
    }
  }
  if (found == nullptr) return;  // never: this deleter is set only for functions of the table
  void (*deleter)(void *, int) = found->deleter;
  found->function->deleter = deleter;
  release(found);
  deleter(object, flags);
}

Kept *find_kept(TVMFFIObject *function) {
  Lock lock(table_lock);
  for (Kept *kept : table)
    if (kept->function == function) return kept;
  Kept *kept = new Kept();
  kept->function = function;
  kept->deleter = function->deleter;
  function->deleter = forget_function;
  table.add(kept);
  return kept;
}

// The function of a call, and the number of its place, which is its last argument or before a shape.
bool read_call(const TVMFFIAny *arguments, int32_t count, int32_t at, Kept *&kept, int64_t &place) {
  if (count <= at || arguments[1].type_index < kTVMFFIStaticObjectBegin || !read_int(arguments[at], place))
    return fail("CUDA: this TVM calls graphs in another way than this runtime expects");
  kept = find_kept(static_cast<TVMFFIObject *>(arguments[1].v_ptr));
  return true;
}

// Call the machine's function with the items of an array as its arguments. -1: TVM's error is set.
int invoke(const TVMFFIAny &machine, const TVMFFIAny &function, const TVMFFIAny *items, TVMFFIAny *result) {
  List<TVMFFIAny> all;
  all.add(machine);
  all.add(function);
  int64_t size = 0;
  if (items != nullptr) {
    TVMFFIAny told = none(), array = *items;
    if (TVMFFIFunctionCall(array_size, &array, 1, &told) != 0) return -1;
    size = told.v_int64;
  }
  int status = 0;
  for (int64_t index = 0; index < size && status == 0; index++) {
    TVMFFIAny asked[] = {*items, make_int(index)}, item = none();
    status = TVMFFIFunctionCall(array_item, asked, 2, &item);
    if (status == 0) all.add(item);
  }
  if (status == 0) status = TVMFFIFunctionCall(invoke_closure, all.data(), static_cast<int32_t>(all.size()), result);
  for (size_t index = 2; index < all.size(); index++) drop(all[index]);
  return status;
}

// The numbers of a shape argument, which packages without changing sizes do not have.
bool read_shape(const TVMFFIAny *arguments, int32_t count, const int64_t *&shape, size_t &dimensions) {
  shape = nullptr;
  dimensions = 0;
  if (count < 5 || arguments[4].type_index == kTVMFFINone) return true;
  if (arguments[4].type_index != kTVMFFIShape)
    return fail("CUDA: this TVM calls graphs in another way than this runtime expects");
  const TVMFFIShapeCell *cell = TVMFFIShapeGetCellPtr(arguments[4].v_obj);
  shape = cell->data;
  dimensions = cell->size;
  return true;
}

Graph *find_graph(Kept &kept, int64_t place, const Device &device, const int64_t *shape, size_t dimensions) {
  for (Graph &graph : kept.graphs)
    if (graph.place == place && graph.device == &device && graph.dimensions == dimensions &&
        (dimensions == 0 || memcmp(graph.shape, shape, dimensions * sizeof(*shape)) == 0))
      return &graph;
  return nullptr;
}

// Instantiate what was captured. The captured graph is destroyed.
bool make_executable(Device &device, CUgraph captured, CUstream stream, CUgraphExec &executable) {
  const CudaFunctions &cu = *device.cu;
  CUresult result = cu.GraphInstantiate(&executable, captured, 0);
  cu.GraphDestroy(captured);
  if (!check(device, result, "make a graph")) return false;
  if (check(device, cu.GraphUpload(executable, stream), "prepare a graph")) return true;
  cu.GraphExecDestroy(executable);
  return false;
}

// A capture of this thread, while it lives.
class Capturing {
 public:
  explicit Capturing(Device &device) : device_(device) { pthread_rwlock_rdlock(&device_.captures); }
  ~Capturing() { pthread_rwlock_unlock(&device_.captures); }
  Capturing(const Capturing &) = delete;
  Capturing &operator=(const Capturing &) = delete;

 private:
  Device &device_;
};

// Capture the calls of a function. 0, or -1 with TVM's error set.
int capture(Device &device, const TVMFFIAny *arguments, Graph &graph) {
  const CudaFunctions &cu = *device.cu;
  CUstream before = current_stream(device), stream = nullptr;
  if (!check(device, cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "make a stream")) return raise_failure();
  Capturing capturing(device);
  // Relaxed: other threads may use the card meanwhile.
  CUresult begun = cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (begun != CUDA_SUCCESS) {
    cu.StreamDestroy(stream);
    return check(device, begun, "capture a graph"), raise_failure();
  }
  set_current_stream(device, stream);
  OwnMemory own;
  int status = invoke(arguments[0], arguments[1], &arguments[2], &graph.result);
  set_current_stream(device, before);
  CUgraph captured = nullptr;
  CUresult ended = cu.StreamEndCapture(stream, &captured);
  bool is_done = false;
  if (status == 0) {
    is_done = check(device, ended, "capture a graph") && make_executable(device, captured, stream, graph.executable);
    if (!is_done) drop(graph.result);
  } else if (ended == CUDA_SUCCESS && captured != nullptr) {
    cu.GraphDestroy(captured);
  }
  cu.StreamDestroy(stream);
  if (status != 0) return status;
  return is_done ? 0 : raise_failure();
}

}  // namespace

bool prepare_graphs() {
  invoke_closure = find_function("vm.builtin.invoke_closure");
  array_size = find_function("ffi.ArraySize");
  array_item = find_function("ffi.ArrayGetItem");
  return (invoke_closure != nullptr && array_size != nullptr && array_item != nullptr) ||
         fail("this TVM has no virtual machine, or tvm_ffi no arrays");
}

int give_kept_memory(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  Kept *kept = nullptr;
  int64_t place = 0;
  if (!read_call(arguments, count, 2, kept, place)) return raise_failure();
  for (const KeptMemory &memory : kept->memories)
    if (memory.place == place) return *result = share(memory.value), 0;
  KeptMemory made = {place, none()};
  OwnMemory own;
  if (int status = invoke(arguments[0], arguments[1], nullptr, &made.value)) return status;
  kept->memories.add(made);
  *result = share(made.value);
  return 0;
}

int run_or_capture(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  Kept *kept = nullptr;
  const int64_t *shape = nullptr;
  size_t dimensions = 0;
  int64_t place = 0;
  if (!read_call(arguments, count, 3, kept, place) || !read_shape(arguments, count, shape, dimensions))
    return raise_failure();
  UsedDevice device = use_device(current_device());
  if (!device) return raise_failure();
  Graph *graph = find_graph(*kept, place, *device, shape, dimensions);
  if (graph == nullptr) {
    Graph made = {place, &*device, nullptr, none(), dimensions, nullptr};
    if (int status = capture(*device, arguments, made)) return status;
    if (dimensions > 0) {
      made.shape = static_cast<int64_t *>(malloc(dimensions * sizeof(*shape)));
      if (made.shape == nullptr) abort();
      memcpy(made.shape, shape, dimensions * sizeof(*shape));
    }
    kept->graphs.add(made);
    graph = &kept->graphs.back();
  }
  if (!check(*device, device->cu->GraphLaunch(graph->executable, current_stream(*device)), "launch a graph"))
    return raise_failure();
  *result = share(graph->result);
  return 0;
}

}  // namespace tvmbuild
