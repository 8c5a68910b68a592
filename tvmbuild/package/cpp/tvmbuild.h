// Packages of tvmbuild in C++17: read one, check it, run it. docs/how-to/cpp.md is the manual.
//
// Needs libtvm_runtime and libtvm_ffi, by TVM's C interface alone: whatever compiles C++17 will do. What goes wrong is
// a tvmbuild::Error with a message for users. One Session serves one thread at a time; sessions are independent.
// A package for cuda or vulkan runs on this machine's first such device; its weights lie there from the beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

struct DLManagedTensor;  // dlpack/dlpack.h, which lies with TVM's headers

namespace tvmbuild {

// A damaged package, a machine that cannot run it, inputs that do not fit, or an error of TVM's.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;  // NumPy's name

  size_t count() const;  // of elements
  size_t bytes() const;
};

// An array that TVM uses in place, in the host's memory or on a device. Copies share it.
class Tensor {
 public:
  // Zeros in the host's memory.
  explicit Tensor(TensorInfo info);
  // Somebody else's array, in the host's memory or on a device; contiguous, 64-byte aligned, and ready. It is taken
  // over: its deleter is called when nobody uses it any more, and at once when this throws.
  Tensor(const std::string &name, DLManagedTensor *given);
  // The same memory for somebody else, who calls the deleter; it may outlive the tensor and the session.
  DLManagedTensor *to_dlpack() const;
  // A copy in the host's memory; of what lies there already, the tensor itself.
  Tensor to_host() const;

  const TensorInfo &info() const { return info_; }
  bool on_host() const { return on_host_; }
  // On a device, what its runtime calls the memory: CUDA's address, a handle of Vulkan's.
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
  std::shared_ptr<void> object_;  // TVM's; null: memory of our own
  std::shared_ptr<void> memory_;
  bool on_host_ = true;
};

// How a picture becomes the input: models.yaml's `preprocess`.
struct Preprocess {
  std::string input;               // empty: the only one
  std::string resize = "stretch";  // or letterbox, crop
  std::string color = "rgb";       // or bgr, gray
  std::string layout = "NCHW";     // or NHWC
  double scale = 1.0 / 255;
  std::vector<double> mean, std;  // empty, or one a channel
};

// What mod.json says.
struct Info {
  std::string model, target, kind, entry;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<std::string> labels;  // empty: none
  std::optional<Preprocess> preprocess;
  bool lifted = false;  // the weights are in mod.params
  int cores = 1;        // that it was tuned for
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
  std::string prefix;    // of its functions' names
  std::string mod_json;  // the text
};

class Session {
 public:
  // `threads` 0: TVM_NUM_THREADS, else the cores that the package was tuned for, as far as there are so many.
  explicit Session(const std::string &package, int threads = 0);
  // Nothing is read, written or loaded. Runs on the TVM runtime's thread pool.
  explicit Session(const LinkedModel &model);
  ~Session();
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;

  const Info &info() const;
  int threads() const;

  // Give the inputs, in the order of info().inputs; they are used in place, so their contents may change later.
  // A GPU's package copies those in the host's memory to its device in each call(), and none that lie there.
  void bind(const std::vector<Tensor> &inputs);
  // Run on the bound inputs; the device has finished when it returns.
  void call();
  // Copy what the last call() computed to the host's memory, in the order of info().outputs.
  std::vector<Tensor> outputs() const;
  // Into tensors that outputs() returned: allocates nothing.
  void copy_outputs(const std::vector<Tensor> &to) const;
  // What the last call() computed, where it lies: another session's inputs, say. Later calls leave it alone.
  std::vector<Tensor> outputs_in_place() const;
  // A copy on the package's device; of what lies there already, and on a CPU, the tensor itself.
  Tensor to_device(const Tensor &tensor) const;
  // bind(), call() and outputs().
  std::vector<Tensor> run(const std::vector<Tensor> &inputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Read and check mod.json and the digests, and load nothing.
Info read_info(const std::string &package);

// The input that a picture becomes, bit by bit what tvmbuild's Python makes of it; `rules` null: the package's.
Tensor preprocess(const Info &info, const Picture &picture, const Preprocess *rules = nullptr);
// Its place in info.inputs.
size_t picture_input(const Info &info, const Preprocess &rules);

// The likeliest classes of a float32 output with one score a class; scores outside [0, 1] go through softmax.
std::vector<RankedClass> rank_classes(const Tensor &scores, const std::vector<std::string> &labels, size_t count);

}  // namespace tvmbuild
