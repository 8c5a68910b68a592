// The state of a session. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "call_queue.h"
#include "code.h"
#include "device.h"
#include "frames.h"
#include "libraries.h"
#include "mapped_file.h"
#include "part_calls.h"
#include "sizes.h"
#include "tvm_calls.h"

namespace tvmbuild {
namespace detail {

// TVM's numbers of allocators. runtime/machine.py chooses in the same way, and says why.
constexpr int64_t MALLOC = 1, POOLED = 2;
constexpr uint64_t MOST_BYTES_OF_MALLOC = uint64_t{32} << 20, MALLOC_HEADER = uint64_t{64} << 10;

// Let glibc's malloc keep the memory of a call for the next one: let_malloc_keep of runtime/machine.py.
inline void let_malloc_keep(size_t size) {
  void *volatile block = std::malloc(size);  // volatile: a compiler may leave out what nobody uses
  std::free(block);
}

}  // namespace detail

using namespace detail;

// The sessions of the calls in the background: one, or one for each lane. They share code and weights with their owner,
// and calls use them in turn.
struct Session::Background {
  std::vector<std::unique_ptr<Session>> sessions;
  size_t calls = 0;  // those that were started

  Session &take() { return *sessions[calls++ % sessions.size()]; }
};

// The session of a call, from its start on.
struct Session::Place {
  std::shared_ptr<Background> background;
  Session *session;
};

struct Session::Impl {
  Info info;
  std::vector<PassedOver> passed_over;
  ThreadOptions share;  // its threads are those of a call
  DLDevice device{kDLCPU, 0};
  bool called = false;
  bool shares_memory = false;        // the device's kernels use page-locked memory of the host in place
  std::shared_ptr<MappedFile> file;  // has the weights, unless they were copied to a device
  std::shared_ptr<Lane> lane;        // of the copies; null: they run with the kernels
  Value library, machine, entry;
  std::vector<Value> params;
  std::vector<Value> inputs;  // as they were bound
  std::vector<Value> copies;  // the device memory of inputs that are bound in the host's memory
  std::vector<bool> copied;   // whether each bound input has such a copy
  Value result;
  std::vector<Value> staged;            // in a lane: the host's memory to which the outputs are copied
  std::vector<MemoryRange> read;        // the inputs' memory in the call that made the result
  std::unique_ptr<FrameRunner> frames;  // null before the first frame

  // Of a package whose shapes vary. Each size has its own session.
  std::shared_ptr<SizeLibraries> libraries;        // shared with twins
  std::vector<std::unique_ptr<Session>> at_sizes;  // in the order of info.sizes.functions; null before the first use
  std::vector<std::unique_ptr<Session>> asked;     // those of at(), whose inputs and results are their own
  Session *chosen = nullptr;                       // that of the bound inputs
  std::map<std::string, int64_t> size;             // of the bound inputs
  std::vector<Tensor> unpadded, padded;            // the bound inputs, and the arrays into which call() copies them
  PartCalls parts;                                 // of a batch in a range

  bool has_sizes() const { return !info.sizes.functions.empty(); }
  Session &at_size() const {
    if (chosen == nullptr) throw Error("no inputs are bound");
    return *chosen;
  }

  std::mutex calls_mutex;            // of the pointer
  std::shared_ptr<CallQueue> calls;  // null before the first call in the background
  std::shared_ptr<Background> background;

  ~Impl() {
    calls.reset();
    background.reset();  // its sessions share the library
    asked.clear();       // each of these uses the device on its own
    at_sizes.clear();
    DeviceUse use(device);
    lane.reset();
    frames.reset();  // values of the library must go before it
    result = Value();
    for (std::vector<Value> *each : {&copies, &staged, &inputs, &params}) each->clear();
    for (Value *each : {&entry, &machine, &library}) *each = Value();
    libraries.reset();
  }

  bool on_gpu() const { return !is_host(device); }

  Value copy_here(const Value &from, const TensorInfo &to) {
    Value copy = allocate(to, device);
    copy_to_device(from, copy, to.name);
    return copy;
  }

  // Copy the outputs of the call to the host when its kernels are done, without a wait.
  void stage() {
    const DLDevice host{device.device_type == kDLCUDA ? kDLCUDAHost : kDLCPU, 0};
    std::vector<TVMFFIAny> pairs;
    std::vector<Value> outputs;
    for (size_t i = 0; i < info.outputs.size(); i++) {
      outputs.push_back(output(i));
      if (staged.size() == i) staged.push_back(allocate(info.outputs[i], host));
      pairs.insert(pairs.end(), {outputs[i].view(), staged[i].view()});
    }
    lane->copy_out(std::move(pairs));
  }

  // Whether an output is an input of the call: a model may return one, and the next call writes into it.
  bool is_input(const Value &output) const {
    const char *first = range_of(output).first;
    return std::any_of(read.begin(), read.end(),
                       [&](const MemoryRange &each) { return each.first <= first && first < each.last; });
  }

  Value output(size_t index) const {
    const TensorInfo &wanted = info.outputs[index];
    Value value = take(index, wanted);
    TensorInfo got = describe(value.object(), wanted.name);
    if (got.shape != wanted.shape || got.dtype != wanted.dtype)
      throw Error("the output " + wanted.name + " is not what mod.json says: " + got.dtype + " " + show(got.shape));
    return value;
  }

  // The lengths that the code returns after the outputs; empty if all shapes are always the same.
  std::vector<int64_t> lengths() const {
    size_t count = count_lengths(info);
    std::vector<int64_t> lengths(count);
    if (count == 0) return lengths;
    TensorInfo wanted{"lengths", {static_cast<int64_t>(count)}, "int64", {}};
    Value value = take(info.outputs.size(), wanted);
    TensorInfo got = describe(value.object(), wanted.name);
    if (got.shape != wanted.shape || got.dtype != wanted.dtype)
      throw Error("the lengths of the outputs are not what mod.json says: " + got.dtype + " " + show(got.shape));
    copy_to_host(value, lengths.data(), wanted.bytes(), wanted.name);
    return lengths;
  }

  Value take(size_t index, const TensorInfo &wanted) const {
    bool single = result.type() == kTVMFFITensor;
    if (!single && result.type() != kTVMFFIArray) throw Error("there is no output " + wanted.name);
    Value value = single ? Value::retain(result.object(), kTVMFFITensor)
                         : invoke(find_global("ffi.ArrayGetItem"),
                                  {result.view(), argument_of(static_cast<int64_t>(index))}, wanted.name);
    if (value.type() != kTVMFFITensor) throw Error("there is no output " + wanted.name);
    return value;
  }

  // The state of a session for one size. It shares the weights.
  std::unique_ptr<Impl> make_size(size_t place) const {
    const SizeFunction &function = info.sizes.functions[place];
    auto made = std::make_unique<Impl>();
    made->lane = lane;
    made->info = describe_size(info, function);
    made->share = share;
    made->device = device;
    made->file = file;
    for (size_t each : function.params) {
      if (each >= params.size()) throw Error("mod.json has a weight that mod.params lacks");
      made->params.push_back(Value::retain(params[each].object(), params[each].type()));
    }
    if (function.library == "mod.so") {
      made->library = Value::retain(library.object(), library.type());
    } else {
      LoadedLibrary loaded = libraries->open(function.library, share);
      made->library = std::move(loaded.library);
      made->share.threads = loaded.threads;
    }
    DeviceUse use(device);
    made->start();
    return made;
  }

  enum class Machine { OWN, SHARED };

  // The state of a session that shares code and weights.
  std::unique_ptr<Impl> make_twin(Machine which = Machine::OWN) const {
    auto made = std::make_unique<Impl>();
    made->info = info;
    made->share = share;
    made->device = device;
    made->file = file;
    made->libraries = libraries;
    made->at_sizes.resize(at_sizes.size());
    made->asked.resize(asked.size());
    made->library = Value::retain(library.object(), library.type());
    for (const Value &each : params) made->params.push_back(Value::retain(each.object(), each.type()));
    if (which == Machine::SHARED) {
      made->shares_memory = shares_memory;
      made->machine = Value::retain(machine.object(), machine.type());
      made->entry = Value::retain(entry.object(), entry.type());
      return made;
    }
    DeviceUse use(device);
    if (!has_sizes()) made->start();
    return made;
  }

  // The state of a session that shares even the machine, and has its own inputs and results, and a lane. One thread
  // starts the calls of both. A package with sizes has machines of its own.
  std::unique_ptr<Impl> make_lane() const {
    auto made = make_twin(has_sizes() ? Machine::OWN : Machine::SHARED);
    made->lane = std::make_shared<Lane>(device);
    return made;
  }

  // Make the virtual machine of the loaded code.
  void start() {
    machine = invoke(find_function(library, "vm_load_executable"), {}, "the code cannot be loaded");
    std::vector<TVMFFIAny> devices;
    const bool is_small = info.workspace > 0 && info.workspace <= MOST_BYTES_OF_MALLOC;
    if (is_small && !on_gpu()) let_malloc_keep(MOST_BYTES_OF_MALLOC - MALLOC_HEADER);
    const int64_t allocator = is_small && !on_gpu() ? MALLOC : POOLED;
    for (DLDevice each : {device, DLDevice{kDLCPU, 0}}) {
      if (!devices.empty() && !on_gpu()) break;  // the host's own code runs on the CPU
      for (int64_t number : {int64_t{each.device_type}, int64_t{each.device_id}, allocator})
        devices.push_back(argument_of(number));
    }
    Value initialize = find_function(machine, "vm_initialization");
    shares_memory = detail::shares_memory(device);
    if (shares_memory) {  // the machine's constants are for the card alone, which caches only its own memory
      devices.insert(devices.begin(), initialize.view());
      initialize = find_global("tvmbuild_cuda.call_with_own_memory");
    }
    invoke(initialize, std::move(devices), "the code cannot be started");
    entry = find_function(machine, info.entry);
    Value arity = invoke(find_function(machine, "get_function_arity"), {argument_of(info.entry.c_str())},
                         "there is no function " + info.entry);
    if (arity.view().v_int64 != static_cast<int64_t>(info.inputs.size() + params.size()))
      throw Error("the package does not fit together: its code takes another number of inputs and weights");
  }
};

}  // namespace tvmbuild
