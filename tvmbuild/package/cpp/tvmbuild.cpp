#include "tvmbuild.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "parts/code.h"
#include "parts/cores.h"
#include "parts/device.h"
#include "parts/find_device.h"
#include "parts/pack.h"
#include "parts/pictures.h"
#include "parts/session_state.h"
#include "parts/this_cpu.h"
#include "parts/weights.h"

namespace tvmbuild {

size_t TensorInfo::count() const {
  size_t count = 1;
  for (int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

size_t TensorInfo::bytes() const {
  auto found = dtype_sizes().find(dtype);
  if (found == dtype_sizes().end()) throw Error(name + " has the unknown type " + dtype);
  return count() * found->second;
}

std::vector<int64_t> Frame::shape() const {
  const Encoding &form = find_encoding(encoding);
  std::vector<int64_t> shape = {form.planes ? height * 3 / 2 : height, stride != 0 ? stride : width};
  if (stride == 0 && form.channels > 1) shape.push_back(form.channels);
  return shape;
}

size_t Frame::bytes() const {
  const Encoding &form = find_encoding(encoding);
  size_t rows = form.planes ? height * 3 / 2 : height;
  return rows * (stride != 0 ? static_cast<size_t>(stride) : static_cast<size_t>(width) * form.channels);
}

Tensor::Tensor(TensorInfo info) : info_(std::move(info)) { memory_ = allocate_aligned(info_.bytes(), info_.name); }

Tensor::Tensor(const std::string &name, DLManagedTensor *given) {
  const DLTensor &tensor = given->dl_tensor;
  TVMFFIObjectHandle made = nullptr;
  if (tensor.byte_offset != 0 || TVMFFITensorFromDLPack(given, ALIGNMENT, 1, &made) != 0) {
    std::string where = name_of(tensor.device);
    if (given->deleter != nullptr) given->deleter(given);
    throw Error(name + " on " + where + " is not contiguous and aligned: pass a copy of it");
  }
  hold(name, made);
}

void Tensor::hold(const std::string &name, void *object) {
  const DLTensor *tensor = TVMFFITensorGetDLTensorPtr(object);
  object_ = std::shared_ptr<void>(object, [device = tensor->device](void *held) {
    DeviceUse use(device);
    TVMFFIObjectDecRef(held);
  });
  memory_ = std::shared_ptr<void>(object_, tensor->data);
  on_host_ = is_host(tensor->device);
  info_ = describe(object, name);
}

DLManagedTensor *Tensor::to_dlpack() const {
  Value value = object_ ? Value::retain(object_.get(), kTVMFFITensor) : share(info_, memory_);
  DLManagedTensor *made = nullptr;
  if (TVMFFITensorToDLPack(value.object(), &made) != 0) throw_raised(info_.name);
  return made;
}

Tensor Tensor::to_host() const {
  if (on_host_) return *this;
  Tensor copy(info_);
  Value from = Value::retain(object_.get(), kTVMFFITensor);
  DeviceUse use(TVMFFITensorGetDLTensorPtr(from.object())->device);
  copy_to_host(from, copy.data(), info_.bytes(), info_.name);
  return copy;
}

// Return the first elements of a tensor along each axis.
static Tensor cut(const Tensor &whole, const std::vector<int64_t> &shape) {
  const TensorInfo &from = whole.info();
  Tensor result(TensorInfo{from.name, shape, from.dtype, {}});
  copy_block(static_cast<const char *>(whole.data()), from.shape, static_cast<char *>(result.data()), shape,
             from.bytes() / std::max<size_t>(from.count(), 1));
  return result;
}

Session::Session(const std::string &path, int threads) : Session(path, ThreadOptions{threads}) {}

Session::Session(const std::string &path, const ThreadOptions &wish) {
  std::vector<PackagePlace> places = list_packages(path);
  if (places.size() == 1 && !places.front().number) {
    open(places.front(), wish);
  } else {
    open_first(places, {}, wish);
  }
}

Session Session::first_of(const std::vector<std::string> &paths, const ThreadOptions &wish) {
  std::vector<PackagePlace> places;
  std::vector<PassedOver> damaged;
  for (const std::string &path : paths) {
    try {
      std::vector<PackagePlace> inside = list_packages(path);
      places.insert(places.end(), inside.begin(), inside.end());
    } catch (const Error &error) {
      damaged.push_back({path, error.what()});
    }
  }
  Session session{std::unique_ptr<Impl>()};
  session.open_first(places, std::move(damaged), wish);
  return session;
}

void Session::open_first(const std::vector<PackagePlace> &places, std::vector<PassedOver> passed_over,
                         const ThreadOptions &wish) {
  for (const PackagePlace &place : places) {
    try {
      open(place, wish);
      impl_->passed_over = std::move(passed_over);
      return;
    } catch (const Error &error) {
      passed_over.push_back({place.name, error.what()});
    }
  }
  std::string reasons;
  for (const PassedOver &each : passed_over) reasons += "\n  " + each.package + ": " + each.reason;
  if (reasons.empty()) throw Error("no package was named");
  throw Error("this machine can run none of the packages:" + reasons);
}

const std::vector<PassedOver> &Session::passed_over() const { return impl_->passed_over; }

void Session::open(const PackagePlace &place, const ThreadOptions &wish) {
  impl_ = std::make_unique<Impl>();
  Package package = read_package(place);
  check_cpu(package.info, package.needs);
  impl_->device = find_device(package.info.kind);
  if (package.info.kind == "cuda") check_card(package.needs, package.info.target, impl_->device);
  ThreadOptions share = wish;
  if (!share.cores.empty()) check_cores(share.cores);
  share.threads = choose_threads(package.info, wish);
  impl_->share = share;
  LoadedLibrary loaded = load_library(package.library, share);
  impl_->library = std::move(loaded.library);
  impl_->share.threads = loaded.threads;
  impl_->info = std::move(package.info);
  if (impl_->info.lifted) impl_->params = load_weights(package.params, package.file, package.places);
  DeviceUse use(impl_->device);
  if (impl_->on_gpu()) {
    for (Value &each : impl_->params) each = impl_->copy_here(each, describe(each.object(), "mod.params"));
  }
  impl_->file = impl_->on_gpu() ? nullptr : package.file;
  if (!impl_->has_sizes()) {
    impl_->start();
    return;
  }
  impl_->libraries = std::make_shared<SizeLibraries>(std::move(package.others));
  impl_->at_sizes.resize(impl_->info.sizes.functions.size());
  impl_->asked.resize(impl_->at_sizes.size());
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::Session(const LinkedModel &model) try : impl_(std::make_unique<Impl>()) {
  nlohmann::json json = read_json(model.mod_json);
  Attributes needs;
  impl_->info = read_metadata(Part(json), needs);
  check_cpu(impl_->info, needs);
  if (impl_->info.kind != "llvm") throw Error("a linked model is for CPUs; this one is for " + impl_->info.kind);
  if (impl_->info.lifted)
    throw Error("the weights of a linked model must be in its code: `params` of mod.json is lifted");
  impl_->library =
      invoke(find_global("ffi.SystemLib"), {argument_of(model.prefix.c_str())}, "the linked model cannot be found");
  impl_->share.threads = runtime_threads();
  impl_->start();
} catch (const Damage &damage) {
  throw Error("the linked model is damaged: " + std::string(damage.what()));
}

Session::~Session() { close(); }
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&other) noexcept {
  if (this == &other) return *this;
  close();
  impl_ = std::move(other.impl_);
  return *this;
}

// End the calls of call_async() while the session is still whole: their callbacks may use it.
void Session::close() noexcept {
  if (!impl_) return;
  if (impl_->calls) impl_->calls->close();
  for (const std::unique_ptr<Session> &each : impl_->asked) {
    if (each) each->close();
  }
}

const Info &Session::info() const { return impl_->info; }
int Session::threads() const { return impl_->share.threads; }

std::vector<std::map<std::string, int64_t>> Session::sizes() const {
  std::vector<std::map<std::string, int64_t>> sizes;
  for (const SizeFunction &each : impl_->info.sizes.functions) sizes.push_back(each.values);
  return sizes;
}

Session &Session::open(size_t place) {
  std::unique_ptr<Session> &session = impl_->at_sizes[place];
  if (!session) session.reset(new Session(impl_->make_size(place)));
  return *session;
}

Session &Session::at(const std::map<std::string, int64_t> &size) {
  const std::vector<SizeFunction> &functions = impl_->info.sizes.functions;
  for (size_t i = 0; i < functions.size(); i++) {
    if (functions[i].values != size) continue;
    std::unique_ptr<Session> &session = impl_->asked[i];
    if (!session) session.reset(new Session(open(i).impl_->make_twin()));
    return *session;
  }
  throw Error(impl_->info.model + " has no size " + show(size) + "; " +
              (impl_->has_sizes() ? describe(impl_->info.sizes) : "it has one shape"));
}

void Session::bind_size(const std::vector<Tensor> &inputs) {
  const Info &info = impl_->info;
  std::map<std::string, int64_t> size = read_values(info, inputs);
  std::vector<BatchPart> parts = plan_calls(info, size);
  if (parts.size() > 1) {
    bind_parts(inputs, parts, std::move(size));
    return;
  }
  size_t place = parts[0].place;
  Session &session = open(place);
  std::vector<Tensor> unpadded, padded;
  if (size != info.sizes.functions[place].values) {
    unpadded = inputs;
    for (size_t i = 0; i < inputs.size(); i++) {
      if (!inputs[i].on_host())
        throw Error("the input " + info.inputs[i].name + " would have to be padded on its device");
      TensorInfo wanted = session.info().inputs[i];
      wanted.dtype = inputs[i].info().dtype;  // bind() names a wrong one
      padded.emplace_back(wanted);
      auto value = info.sizes.pad.find(wanted.name);
      if (value != info.sizes.pad.end()) fill(padded.back(), value->second);
    }
  }
  session.bind(padded.empty() ? inputs : padded);
  impl_->chosen = &session;
  impl_->size = std::move(size);
  impl_->unpadded = std::move(unpadded);
  impl_->padded = std::move(padded);
  impl_->parts = PartCalls();
}

void Session::bind_parts(const std::vector<Tensor> &inputs, const std::vector<BatchPart> &parts,
                         std::map<std::string, int64_t> size) {
  auto view = [](const Tensor &whole, const TensorInfo &form, size_t offset) {
    Tensor part;
    part.info_ = form;
    part.memory_ = std::shared_ptr<void>(whole.memory_, static_cast<char *>(whole.data()) + offset);
    return part;
  };
  PartCalls made(impl_->info, impl_->info.sizes.functions[parts[0].place], inputs, size);
  for (const BatchPart &part : parts) made.add(impl_->info, open(part.place), part, view);
  impl_->chosen = &open(parts.back().place);
  impl_->size = std::move(size);
  impl_->unpadded.clear();
  impl_->padded.clear();
  impl_->parts = std::move(made);
}

Tensor Session::make_input(size_t place) const {
  if (place >= impl_->info.inputs.size())
    throw Error(impl_->info.model + " has no input number " + std::to_string(place));
  const TensorInfo &info = impl_->info.inputs[place];
  Value known = allocate_known_to(impl_->device, info);
  if (known.type() != kTVMFFITensor) return Tensor(info);
  Tensor made;
  made.hold(info.name, known.release());
  return made;
}

void Session::bind(const std::vector<Tensor> &inputs) {
  const std::vector<TensorInfo> &wanted = impl_->info.inputs;
  if (inputs.size() != wanted.size())
    throw Error(impl_->info.model + " takes " + std::to_string(wanted.size()) + " inputs, got " +
                std::to_string(inputs.size()));
  if (impl_->has_sizes()) {
    bind_size(inputs);
    return;
  }
  std::vector<Value> given;
  std::vector<bool> copied;
  for (size_t i = 0; i < wanted.size(); i++) {
    const TensorInfo &got = inputs[i].info();
    if (got.shape != wanted[i].shape || got.dtype != wanted[i].dtype)
      throw Error("the input " + wanted[i].name + " of " + impl_->info.model + " is " + wanted[i].dtype + " " +
                  show(wanted[i].shape) + ", got " + got.dtype + " " + show(got.shape));
    given.push_back(inputs[i].object_ ? Value::retain(inputs[i].object_.get(), kTVMFFITensor)
                                      : share(got, inputs[i].memory_));
    DLDevice there = TVMFFITensorGetDLTensorPtr(given[i].object())->device;
    copied.push_back(is_host(there) && impl_->on_gpu());
    if (!copied[i] && !is_same(there, impl_->device) && !(is_host(there) && is_host(impl_->device)))
      throw Error("the input " + wanted[i].name + " is on " + name_of(there) + "; the package runs on " +
                  name_of(impl_->device));
  }
  DeviceUse use(impl_->device);
  impl_->copies.resize(wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    Value in_place = copied[i] && impl_->shares_memory ? share_with(impl_->device, given[i], wanted[i].name) : Value();
    if (in_place.type() == kTVMFFITensor) {
      given[i] = std::move(in_place);
      copied[i] = false;
    }
    if (copied[i] && impl_->copies[i].type() != kTVMFFITensor)
      impl_->copies[i] = allocate_for_host(wanted[i], impl_->device);
  }
  impl_->inputs = std::move(given);
  impl_->copied = std::move(copied);
}

void Session::call() {
  start();
  wait();
}

void Session::call_on_stream(void *stream) {
  if (impl_->device.device_type != kDLCUDA)
    throw Error(impl_->info.model + " runs on " + name_of(impl_->device) + ", which has no CUDA streams");
  if (!impl_->parts.empty())
    throw Error(impl_->info.model + " takes these inputs in parts, whose outputs are joined in the host's memory");
  int64_t handle = static_cast<int64_t>(reinterpret_cast<intptr_t>(stream));
  if (handle != KERNELS) sync_streams(impl_->device, handle, KERNELS);
  start();
  if (handle != KERNELS) sync_streams(impl_->device, KERNELS, handle);
}

// Copy the bound inputs to the device, and launch the kernels.
void Session::start() {
  if (!impl_->parts.empty()) {
    impl_->parts.run();
    return;
  }
  if (impl_->has_sizes()) {
    Session &session = impl_->at_size();
    for (size_t i = 0; i < impl_->padded.size(); i++) {
      const TensorInfo &from = impl_->unpadded[i].info(), &to = impl_->padded[i].info();
      copy_block(static_cast<const char *>(impl_->unpadded[i].data()), from.shape,
                 static_cast<char *>(impl_->padded[i].data()), to.shape,
                 from.bytes() / std::max<size_t>(from.count(), 1));
    }
    session.start();
    return;
  }
  if (impl_->inputs.size() != impl_->info.inputs.size()) throw Error("no inputs are bound");
  if (impl_->file) impl_->file->check();
  DeviceUse use(impl_->device, !impl_->called);
  OnCores bound(impl_->share.cores);
  std::vector<TVMFFIAny> arguments;
  impl_->result = Value();  // its memory is reused
  impl_->read.clear();
  std::vector<TVMFFIAny> pairs;  // of a lane's copies
  for (size_t i = 0; i < impl_->inputs.size(); i++) {
    if (impl_->copied[i] && impl_->lane) {
      pairs.insert(pairs.end(), {impl_->inputs[i].view(), impl_->copies[i].view()});
    } else if (impl_->copied[i]) {
      copy_to_device(impl_->inputs[i], impl_->copies[i], impl_->info.inputs[i].name);
    }
    const Value &used = impl_->copied[i] ? impl_->copies[i] : impl_->inputs[i];
    arguments.push_back(used.view());
    impl_->read.push_back(range_of(used));
  }
  if (impl_->lane) impl_->lane->copy_in(std::move(pairs));
  for (const Value &each : impl_->params) arguments.push_back(each.view());
  impl_->result = invoke(impl_->entry, std::move(arguments), impl_->info.model);
  impl_->called = true;
  if (impl_->lane && impl_->shares_memory) impl_->lane->follow_kernels();
  if (impl_->lane && !impl_->shares_memory) impl_->stage();
}

// Wait until the device has finished the call.
void Session::wait() {
  if (!impl_->parts.empty()) return;
  if (impl_->has_sizes()) {
    impl_->at_size().wait();
    return;
  }
  DeviceUse use(impl_->device);
  Lane::Copies copies(impl_->lane.get());
  wait_for(impl_->device, impl_->info.model);
}

std::vector<Tensor> Session::outputs() const {
  if (!impl_->parts.empty()) return impl_->parts.outputs(true);
  std::vector<Tensor> outputs;
  if (impl_->has_sizes()) {
    outputs = impl_->at_size().outputs();
  } else if (impl_->shares_memory) {
    outputs = take_outputs();
  } else {
    for (const TensorInfo &info : impl_->info.outputs) {
      Tensor made;
      made.info_ = info;
      made.memory_ = allocate_uninitialised(info.bytes(), info.name);
      outputs.push_back(std::move(made));
    }
    copy_outputs(outputs);
  }
  std::vector<std::vector<int64_t>> shapes = output_shapes();
  for (size_t i = 0; i < outputs.size(); i++) {
    if (shapes[i] != outputs[i].info().shape) outputs[i] = cut(outputs[i], shapes[i]);
  }
  return outputs;
}

// Return the memory that the kernels wrote where the host shares it, and copies of the rest.
std::vector<Tensor> Session::take_outputs() const {
  std::vector<Tensor> outputs;
  DeviceUse use(impl_->device);
  std::vector<const void *> taken;  // a model may return a tensor twice, and the caller may write into one of them
  for (size_t i = 0; i < impl_->info.outputs.size(); i++) {
    const TensorInfo &info = impl_->info.outputs[i];
    Value value = impl_->output(i);
    const void *memory = TVMFFITensorGetDLTensorPtr(value.object())->data;
    bool is_own = std::find(taken.begin(), taken.end(), memory) == taken.end() && !impl_->is_input(value);
    Value here = is_own ? share_with(DLDevice{kDLCPU, 0}, value, info.name) : Value();
    taken.push_back(memory);
    if (here.type() == kTVMFFITensor) {
      outputs.push_back(Tensor());
      outputs.back().hold(info.name, here.release());
    } else {
      outputs.emplace_back(info);
      copy_to_host(value, outputs.back().data(), info.bytes(), info.name);
    }
  }
  return outputs;
}

std::vector<std::vector<int64_t>> Session::output_shapes() const {
  std::vector<std::vector<int64_t>> shapes;
  if (!impl_->parts.empty()) {
    for (const TensorInfo &each : impl_->parts.forms()) shapes.push_back(each.shape);
    return shapes;
  }
  if (impl_->has_sizes()) {
    shapes = impl_->at_size().output_shapes();
    for (size_t i = 0; !impl_->padded.empty() && i < shapes.size(); i++) {
      const std::vector<Axis> &axes = impl_->info.sizes.outputs.at(impl_->info.outputs[i].name);
      for (size_t axis = 0; axis < axes.size(); axis++) {
        if (!axes[axis].letter.empty()) shapes[i][axis] = std::min(shapes[i][axis], impl_->size.at(axes[axis].letter));
      }
    }
    return shapes;
  }
  DeviceUse use(impl_->device);
  std::vector<int64_t> lengths = impl_->lengths();
  for (const TensorInfo &info : impl_->info.outputs) {
    shapes.push_back(info.shape);
    for (const Count &count : info.counts)
      shapes.back()[count.axis] = std::clamp<int64_t>(lengths[count.place], 0, info.shape[count.axis]);
  }
  return shapes;
}

void Session::copy_outputs(const std::vector<Tensor> &to) const {
  const std::vector<TensorInfo> &wanted = impl_->info.outputs;
  if (to.size() != wanted.size())
    throw Error(impl_->info.model + " has " + std::to_string(wanted.size()) + " outputs, got room for " +
                std::to_string(to.size()));
  if (impl_->has_sizes()) {
    copy_size_outputs(to);
    return;
  }
  DeviceUse use(impl_->device);
  std::vector<Value> outputs;
  for (size_t i = 0; i < wanted.size(); i++) {
    if (!to[i].on_host() || to[i].info().shape != wanted[i].shape || to[i].info().dtype != wanted[i].dtype)
      throw Error("there is no room for the output " + wanted[i].name + ", " + wanted[i].dtype + " " +
                  show(wanted[i].shape) + ", in the host's memory");
    outputs.push_back(impl_->output(i));
  }
  for (size_t i = 0; i < impl_->staged.size(); i++)
    std::memcpy(to[i].data(), TVMFFITensorGetDLTensorPtr(impl_->staged[i].object())->data, wanted[i].bytes());
  if (!impl_->staged.empty()) return;
  std::vector<HostCopy> copies;
  copies.reserve(wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) copies.push_back({outputs[i], to[i].data(), wanted[i]});
  copy_all_to_host(impl_->device, copies);
}

void Session::copy_size_outputs(const std::vector<Tensor> &to) const {
  if (impl_->padded.empty() && impl_->parts.empty()) {
    impl_->at_size().copy_outputs(to);
    return;
  }
  std::vector<Tensor> from = impl_->parts.empty() ? outputs() : impl_->parts.outputs(false);
  for (size_t i = 0; i < from.size(); i++) {
    const TensorInfo &got = from[i].info();
    if (!to[i].on_host() || to[i].info().shape != got.shape || to[i].info().dtype != got.dtype)
      throw Error("there is no room for the output " + got.name + ", " + got.dtype + " " + show(got.shape) +
                  ", in the host's memory");
    std::memcpy(to[i].data(), from[i].data(), got.bytes());
  }
}

std::vector<Tensor> Session::outputs_in_place() const {
  if (!impl_->parts.empty()) return impl_->parts.outputs(true);
  if (impl_->has_sizes()) return impl_->at_size().outputs_in_place();
  std::vector<Tensor> outputs;
  DeviceUse use(impl_->device);
  bool has_copies = false;
  for (const TensorInfo &info : impl_->info.outputs) {
    Value value = impl_->output(outputs.size());
    if (impl_->is_input(value)) {
      value = impl_->copy_here(value, info);
      has_copies = true;
    }
    outputs.push_back(Tensor());
    outputs.back().hold(info.name, value.release());
  }
  if (has_copies) wait_for(impl_->device, impl_->info.model);
  return outputs;
}

Tensor Session::to_device(const Tensor &tensor) const {
  if (!impl_->on_gpu() || !tensor.on_host()) return tensor;
  TVMFFIObjectHandle copy = nullptr;
  {
    DeviceUse use(impl_->device);
    Value from =
        tensor.object_ ? Value::retain(tensor.object_.get(), kTVMFFITensor) : share(tensor.info(), tensor.memory_);
    copy = impl_->copy_here(from, tensor.info()).release();
    wait_for(impl_->device, tensor.info().name);
  }
  Tensor there;
  there.hold(tensor.info().name, copy);
  return there;
}

std::vector<Tensor> Session::run(const std::vector<Tensor> &inputs) {
  bind(inputs);
  call();
  return outputs();
}

// Add a call that `make` makes for the session in which it runs.
void Session::add_job(const std::function<Job(const std::shared_ptr<Place> &)> &make) {
  std::unique_lock<std::mutex> lock(impl_->calls_mutex);
  if (!impl_->calls) {
    bool in_lanes = has_lanes(impl_->device);
    auto background = std::make_shared<Background>();
    background->sessions.emplace_back(new Session(impl_->make_twin()));
    Impl &first = *background->sessions[0]->impl_;
    if (in_lanes) first.lane = std::make_shared<Lane>(first.device);
    while (in_lanes && background->sessions.size() < LANES)
      background->sessions.emplace_back(new Session(first.make_lane()));
    impl_->background = background;
    impl_->calls = std::make_shared<CallQueue>(background->sessions.size());
  }
  std::shared_ptr<CallQueue> calls = impl_->calls;
  auto place = std::make_shared<Place>(Place{impl_->background, nullptr});
  Job job = make(place);
  job.start = [place, start = std::move(job.start)] {
    place->session = &place->background->take();
    start();
  };
  lock.unlock();  // a callback may add a call while this one waits for room
  calls->add(std::move(job));
}

void Session::call_async(std::vector<Tensor> inputs, Done done, bool newest) {
  auto given = std::make_shared<std::vector<Tensor>>(std::move(inputs));
  add_job([&](const std::shared_ptr<Place> &place) {
    auto start = [place, given] {
      place->session->bind(*given);
      place->session->start();
    };
    auto finish = [place, given, done = std::move(done)](std::exception_ptr error) {
      std::vector<Tensor> outputs;
      try {
        if (!error) outputs = place->session->finish();
      } catch (...) {
        error = std::current_exception();
      }
      given->clear();             // they may be large
      place->background.reset();  // if `done` ends the session, it goes before that returns
      done(std::move(outputs), error);
    };
    return Job{start, finish, newest};
  });
}

void Session::run_frame_async(const uint8_t *bytes, size_t size, FrameDone done, const FrameOptions &options,
                              bool newest) {
  auto kept = std::make_shared<const FrameOptions>(options);  // with its inputs, until their copies are done
  add_job([&](const std::shared_ptr<Place> &place) {
    auto start = [place, bytes, size, kept] { place->session->start_frame(bytes, size, *kept); };
    auto finish = [place, kept, done = std::move(done)](std::exception_ptr error) {
      const Results none, *results = &none;
      try {
        if (!error) results = &place->session->finish_frame();
      } catch (...) {
        error = std::current_exception();
      }
      done(*results, error);
    };
    return Job{start, finish, newest};
  });
}

// Wait for the call that was started, and return its outputs in the host's memory.
std::vector<Tensor> Session::finish() {
  wait();
  Lane::Copies copies(impl_->lane.get());
  return outputs();
}

void Session::wait_async() {
  std::unique_lock<std::mutex> lock(impl_->calls_mutex);
  std::shared_ptr<CallQueue> calls = impl_->calls;
  lock.unlock();
  if (calls) calls->wait();
}

void Session::end_async() {
  std::shared_ptr<CallQueue> calls;
  {
    std::lock_guard<std::mutex> lock(impl_->calls_mutex);
    calls.swap(impl_->calls);
    impl_->background.reset();  // the calls have it
  }
  if (calls) calls->close();
}

void Session::prepare_frames() {
  if (!impl_->frames)
    impl_->frames = std::make_unique<FrameRunner>(impl_->info, impl_->machine, impl_->params, impl_->device);
  if (impl_->file) impl_->file->check();
}

const Results &Session::run_frame(const uint8_t *bytes, size_t size, const FrameOptions &options) {
  start_frame(bytes, size, options);
  return finish_frame();
}

void Session::start_frame(const uint8_t *bytes, size_t size, const FrameOptions &options) {
  if (impl_->has_sizes()) {
    open(impl_->at_sizes.size() - 1).start_frame(bytes, size, options);
    return;
  }
  prepare_frames();
  OnCores bound(impl_->share.cores);
  impl_->frames->start(bytes, size, options, impl_->lane.get());
}

const Results &Session::finish_frame() {
  if (impl_->has_sizes()) return open(impl_->at_sizes.size() - 1).finish_frame();
  return impl_->frames->finish(impl_->lane.get());
}

Tensor Session::prepare_frame(const uint8_t *bytes, size_t size, const FrameOptions &options) {
  if (impl_->has_sizes()) return open(impl_->at_sizes.size() - 1).prepare_frame(bytes, size, options);
  prepare_frames();
  OnCores bound(impl_->share.cores);
  return impl_->frames->prepare_input(bytes, size, options);
}

Info read_info(const std::string &package) { return read_package(list_packages(package).front()).info; }

size_t picture_input(const Info &info, const Preprocess &rules) {
  for (size_t i = 0; i < info.inputs.size(); i++) {
    if (info.inputs[i].name == rules.input || (rules.input.empty() && info.inputs.size() == 1)) return i;
  }
  throw Error(info.model + " does not say which of its inputs is a picture");
}

Tensor preprocess(const Info &info, const Picture &picture, const Preprocess *given) {
  const Preprocess *chosen = given;
  if (chosen == nullptr && info.preprocess) chosen = &*info.preprocess;
  if (chosen == nullptr) throw Error(info.model + " does not say how a picture becomes its input");
  const Preprocess &rules = *chosen;
  std::string fault = find_fault(rules);
  if (!fault.empty()) throw Error(fault);
  if (picture.width < 1 || picture.height < 1 || (picture.channels != 1 && picture.channels != 3) ||
      picture.pixels.size() != static_cast<size_t>(picture.width) * picture.height * picture.channels)
    throw Error("the picture is empty, or its pixels are not as many as its sides say");
  const TensorInfo &tensor = info.inputs[picture_input(info, rules)];
  std::vector<int64_t> shape = tensor.shape;
  if (shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  bool gray = rules.color == "gray", planes = rules.layout == "NCHW";
  int64_t channels = gray ? 1 : 3;
  bool fits = shape.size() == 3 && shape[planes ? 0 : 2] == channels;
  for (int64_t side : shape) fits = fits && side >= 1 && side <= 1 << 14;
  if (!fits)
    throw Error("the input " + tensor.name + " of " + info.model + " is " + show(tensor.shape) + ": no " + rules.color +
                " picture in " + rules.layout);
  if (tensor.dtype != "float32" && tensor.dtype != "uint8")
    throw Error("pictures become float32 or uint8 here; " + tensor.name + " is " + tensor.dtype);
  int height = static_cast<int>(shape[planes ? 1 : 0]), width = static_cast<int>(shape[planes ? 2 : 1]);
  Picture ready = fit(convert(picture, gray), width, height, rules);
  Tensor result(tensor);
  size_t area = static_cast<size_t>(width) * height;
  for (int64_t channel = 0; channel < channels; channel++) {
    float table[256];  // rounded after each operation, like a framework's float32 tensors
    for (int byte = 0; byte < 256; byte++) {
      float value = static_cast<float>(byte * rules.scale);
      if (!rules.mean.empty()) value = value - static_cast<float>(rules.mean[channel]);
      if (!rules.std.empty()) value = value / static_cast<float>(rules.std[channel]);
      table[byte] = value;
    }
    int64_t source = rules.color == "bgr" ? 2 - channel : channel;
    for (size_t i = 0; i < area; i++) {
      float value = table[ready.pixels[i * channels + source]];
      size_t at = planes ? channel * area + i : i * channels + channel;
      if (tensor.dtype == "float32") {
        result.as<float>()[at] = value;
      } else {
        result.as<uint8_t>()[at] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
      }
    }
  }
  return result;
}

std::vector<RankedClass> rank_classes(const Tensor &scores, const std::vector<std::string> &labels, size_t count) {
  const TensorInfo &info = scores.info();
  if (info.dtype != "float32" ||
      std::count_if(info.shape.begin(), info.shape.end(), [](int64_t n) { return n != 1; }) != 1)
    throw Error("the output " + info.name + " is " + info.dtype + " " + show(info.shape) + ": not one score a class");
  const float *values = scores.as<float>();
  size_t size = info.count();
  if (size == 0) return {};
  auto is_nan = [&](size_t i) { return std::isnan(values[i]); };
  std::vector<size_t> order(size);
  for (size_t i = 0; i < size; i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return values[a] > values[b] || (is_nan(b) && !is_nan(a));  // NaN comes last, as in NumPy
  });
  double most = values[order.front()], least = values[order.back()], total = 0;
  bool logits = least < 0 || (most > 1 && !std::isnan(least));
  for (size_t i = 0; i < size; i++) total += logits ? std::exp(values[i] - most) : 0;
  std::vector<RankedClass> best;
  for (size_t i = 0; i < std::min(count, size); i++) {
    double value = values[order[i]];
    double probability = logits ? std::exp(value - most) / total : value;
    best.push_back({order[i], probability, labels.size() == size ? labels[order[i]] : ""});
  }
  return best;
}

}  // namespace tvmbuild
