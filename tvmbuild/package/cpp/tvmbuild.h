// Packages of tvmbuild in C++17: read, check and run them. docs/how-to/cpp.md is the manual.
//
// It needs libtvm_runtime and libtvm_ffi, only through TVM's C interface, so any C++17 compiler works. Every error is a
// tvmbuild::Error with a message for users. One Session serves one thread at a time; sessions are independent. A
// package for cuda or vulkan runs on this machine's first such device, which holds its weights from the beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

struct DLManagedTensor;  // dlpack/dlpack.h, beside TVM's headers

namespace tvmbuild {

// A damaged package, a machine that cannot run it, inputs that do not fit, or an error of TVM.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;  // NumPy's name

  size_t count() const;  // the number of elements
  size_t bytes() const;
};

// An array that TVM uses in place, in the host's memory or on a device. Copies share it.
class Tensor {
 public:
  // Zeros in the host's memory.
  explicit Tensor(TensorInfo info);
  // An array of another library, in the host's memory or on a device; contiguous, 64-byte aligned, and ready. The
  // Tensor takes it over: it calls the deleter when the last user is gone, and at once if this throws.
  Tensor(const std::string &name, DLManagedTensor *given);
  // The same memory for another library, which calls the deleter. It may outlive the tensor and the session.
  DLManagedTensor *to_dlpack() const;
  // A copy in the host's memory. A tensor that is already there is returned itself.
  Tensor to_host() const;

  const TensorInfo &info() const { return info_; }
  bool on_host() const { return on_host_; }
  // On a device, its runtime's name of the memory: CUDA's address, a handle of Vulkan's.
  void *data() const { return memory_.get(); }
  template <typename Number>
  Number *as() const {
    if (!on_host_) throw Error(info_.name + " is not in the host's memory");
    if (sizeof(Number) * info_.count() != info_.bytes()) throw Error(info_.name + " is " + info_.dtype);
    return static_cast<Number *>(memory_.get());
  }

 private:
  friend class Session;
  Tensor() = default;
  void hold(const std::string &name, void *object);
  TensorInfo info_;
  std::shared_ptr<void> object_;  // TVM's object; null: memory of our own
  std::shared_ptr<void> memory_;
  bool on_host_ = true;
};

// The conversion of a picture into the input: models.yaml's `preprocess`.
struct Preprocess {
  std::string input;               // empty: the only one
  std::string resize = "stretch";  // or letterbox, crop
  std::string color = "rgb";       // or bgr, gray
  std::string layout = "NCHW";     // or NHWC
  double scale = 1.0 / 255;
  std::vector<double> mean, std;  // empty, or one a channel
};

// The contents of mod.json.
struct Info {
  std::string model, target, kind, entry;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<std::string> labels;  // empty: none
  std::optional<Preprocess> preprocess;
  bool lifted = false;  // the weights are in mod.params
  int cores = 1;        // the number that it was tuned for
  int tasks = 0, covered = 0;
};

// Rows of pixels, 1 or 3 bytes (red, green, blue) each.
struct Picture {
  int width = 0, height = 0, channels = 3;
  std::vector<uint8_t> pixels;
};

struct RankedClass {
  size_t index = 0;
  double probability = 0;
  std::string label;  // empty: none
};

// A model whose code is part of the program, with its weights: examples/static_library makes one.
struct LinkedModel {
  std::string prefix;    // the prefix of its functions' names
  std::string mod_json;  // the text
};

class Session {
 public:
  // `threads` 0: TVM_NUM_THREADS, else the number of cores that the package was tuned for, at most the available cores.
  explicit Session(const std::string &package, int threads = 0);
  // Reads, writes and loads nothing. Runs on the TVM runtime's thread pool.
  explicit Session(const LinkedModel &model);
  ~Session();
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;

  const Info &info() const;
  int threads() const;

  // Give the inputs, in the order of info().inputs. They are used in place, so their contents may change later. A GPU's
  // package copies inputs in the host's memory to its device in each call(); it does not copy inputs on the device.
  void bind(const std::vector<Tensor> &inputs);
  // Run on the bound inputs; the device has finished when it returns.
  void call();
  // Copy the outputs of the last call() to the host's memory, in the order of info().outputs.
  std::vector<Tensor> outputs() const;
  // Copy them into tensors that outputs() returned, without allocating.
  void copy_outputs(const std::vector<Tensor> &to) const;
  // The outputs of the last call() where they are, for example as another session's inputs. Later calls do not change
  // them.
  std::vector<Tensor> outputs_in_place() const;
  // A copy on the package's device. A tensor that is already there, or on a CPU, is returned itself.
  Tensor to_device(const Tensor &tensor) const;
  // bind(), call() and outputs().
  std::vector<Tensor> run(const std::vector<Tensor> &inputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Read and check mod.json and the digests, and load nothing.
Info read_info(const std::string &package);

// The input for a picture, bit by bit as tvmbuild's Python computes it. `rules` null: the package's.
Tensor preprocess(const Info &info, const Picture &picture, const Preprocess *rules = nullptr);
// The index of that input in info.inputs.
size_t picture_input(const Info &info, const Preprocess &rules);

// The likeliest classes of a float32 output with one score a class; scores outside [0, 1] go through softmax.
std::vector<RankedClass> rank_classes(const Tensor &scores, const std::vector<std::string> &labels, size_t count);

}  // namespace tvmbuild
