// A C++17 library that reads, checks and runs packages of tvmbuild. docs/how-to/cpp.md is the manual.
//
// It uses libtvm_runtime and libtvm_ffi only through TVM's C interface, so any C++17 compiler works. Every error is a
// tvmbuild::Error with a message for users. One Session serves one thread at a time; sessions are independent. A
// package for cuda or vulkan runs on this machine's first device of that kind. Its weights stay on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

struct DLManagedTensor;  // dlpack/dlpack.h, beside TVM's headers

namespace tvmbuild {

namespace detail {
struct BatchPart;
struct Job;
struct PackagePlace;
class ResultReader;
}  // namespace detail

// The error for a damaged package, a machine that cannot run it, inputs that do not fit, or a failure in TVM.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An axis of an output whose length depends on data. The output's shape has the largest length.
struct Count {
  size_t axis = 0;
  size_t place = 0;  // of the length, in the tensor that the code returns after all outputs
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;               // NumPy's name of the type, for example float32
  std::vector<Count> counts = {};  // empty for inputs, and for outputs whose shape is always the same

  size_t count() const;  // the number of elements
  size_t bytes() const;  // the size in bytes
};

// An array in the host's memory or on a device, which TVM uses without a copy. Copies of a Tensor share the array.
class Tensor {
 public:
  // A new array of zeros in the host's memory.
  explicit Tensor(TensorInfo info);
  // An array of another library, in the host's memory or on a device. It must be contiguous, 64-byte aligned and ready.
  // The Tensor takes it over: it calls the deleter when its last user is gone, or at once if this throws.
  Tensor(const std::string &name, DLManagedTensor *given);
  // Share the memory with another library, which must call the deleter. The result may outlive tensor and session.
  DLManagedTensor *to_dlpack() const;
  // Return a copy in the host's memory, or the tensor itself if it is already there.
  Tensor to_host() const;

  const TensorInfo &info() const { return info_; }
  bool on_host() const { return on_host_; }
  // The address in the host's memory. On a device it is CUDA's address, or a handle of the Vulkan runtime.
  void *data() const { return memory_.get(); }
  template <typename Number>
  Number *as() const {
    if (!on_host_) throw Error(info_.name + " is not in the host's memory");
    if (sizeof(Number) * info_.count() != info_.bytes()) throw Error(info_.name + " is " + info_.dtype);
    return static_cast<Number *>(memory_.get());
  }

 private:
  friend class Session;
  friend class detail::ResultReader;
  Tensor() = default;
  void hold(const std::string &name, void *object);
  TensorInfo info_;
  std::shared_ptr<void> object_;  // TVM's object, or null if the memory is our own
  std::shared_ptr<void> memory_;
  bool on_host_ = true;
};

// The rules for converting a picture into an input: `preprocess` in models.yaml.
struct Preprocess {
  std::string input;               // the input's name; empty if the model has only one
  std::string resize = "stretch";  // or letterbox, crop
  std::string color = "rgb";       // or bgr, gray
  std::string layout = "NCHW";     // or NHWC
  double scale = 1.0 / 255;
  std::vector<double> mean, std;  // one number per channel, or empty
  std::string align = "center";   // or top-left: the place of a letterboxed picture
  uint8_t fill = 114;             // the byte around a letterboxed picture
  double crop_pct = 1;            // the share of the resized picture's shorter side that `crop` keeps
};

// A part of a frame in pixels.
struct Crop {
  int top = 0, left = 0, height = 0, width = 0;
};

// The bytes of a camera's frame: `frame` in models.yaml.
struct Frame {
  int height = 0, width = 0;                // in pixels
  std::string encoding;                     // rgb8, bgr8, rgba8, mono8, yuyv, nv12, bayer_rggb8, …
  std::string interpolation = "antialias";  // or bilinear, area, nearest
  int stride = 0;                           // the distance of two rows in bytes; 0: there are no gaps between rows
  std::optional<Crop> crop;                 // the part that is used, if it is not the whole frame

  std::vector<int64_t> shape() const;  // of the bytes as a uint8 array
  size_t bytes() const;                // the size in bytes
};

// A result that the package makes of its outputs: a key of `postprocess` in models.yaml.
struct Postprocess {
  std::string kind;                  // boxes, masks, keypoints, classes, segmentation, text, vector, heatmaps or raw
  std::optional<double> score;       // the score that a result must exceed; empty if the kind has no such threshold
  std::optional<double> overlap;     // of two boxes that share more than this part of their union, one is dropped
  int most = 0;                      // the largest number of results; 0 for kinds without a limit
  int points = 0, values = 0;        // of keypoints: the points of an object, and the numbers of a point, 2 or 3
  std::string blank;                 // of a text: whether the symbol for no character is the first or the last
  std::vector<std::string> labels;   // the names of its classes or points; empty: those of the package
  std::vector<std::string> outputs;  // the names of those that it reads; empty: the first ones
  bool in_input = false;             // whether a map has the pixels of the network's input instead of the frame's
};

// A length of a shape, or the letter that stands for it.
struct Axis {
  int64_t length = 0;
  std::string letter;  // empty: the length is always the same
};

// The code for one size of a package whose shapes vary.
struct SizeFunction {
  std::map<std::string, int64_t> values;      // of the letters
  std::string library;                        // the file in the package
  std::vector<size_t> params;                 // the places of its weights in mod.params
  std::vector<std::vector<int64_t>> outputs;  // their shapes, in the order of Info::outputs
  int64_t cost = 0;                           // the expected time of a call in ns, of a package with a range
};

// The values of a letter that a package takes: all from the first to the last, between its sizes in parts.
struct Range {
  std::string letter;  // empty: there is no range
  int64_t first = 0, last = 0;
};

// The sizes of a package: `sizes` in models.yaml. Other packages have no functions here.
struct Sizes {
  std::map<std::string, std::vector<Axis>> inputs, outputs;  // the shapes in letters
  std::vector<SizeFunction> functions;                       // the smallest first
  std::vector<std::string> padded;                           // the letters along which inputs may be padded
  std::map<std::string, double> pad;                         // the value that pads an input, if it is not 0
  Range range;                                               // of the batch
};

// The contents of mod.json.
struct Info {
  std::string model, target, kind, entry;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<std::string> labels;  // the names of the classes, the characters of a text; empty if there are none
  std::optional<Preprocess> preprocess;
  std::vector<Frame> frames;             // those that run_frame takes
  std::vector<Postprocess> postprocess;  // empty: run_frame returns the outputs
  Sizes sizes;                           // `inputs` and `outputs` are those of the largest
  bool lifted = false;                   // whether the weights are in mod.params
  int cores = 1;                         // the number of cores that the package was tuned for
  int tasks = 0, covered = 0;            // the number of Tasks, and of Tasks with a record
  uint64_t workspace = 0;                // the bytes between the operators and of the outputs; 0: it is not known
};

// A picture as rows of pixels. A pixel has 1 byte (grey) or 3 bytes (red, green, blue).
struct Picture {
  int width = 0, height = 0, channels = 3;
  std::vector<uint8_t> pixels;
};

struct RankedClass {
  size_t index = 0;
  double probability = 0;
  std::string label;  // the class's name; empty if the package has no labels
};

// Values in memory that belongs to the session.
template <typename Item>
class View {
 public:
  View() = default;
  View(const Item *data, size_t size) : data_(data), size_(size) {}
  const Item *data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Item &operator[](size_t index) const { return data_[index]; }
  const Item *begin() const { return data_; }
  const Item *end() const { return data_ + size_; }

 private:
  const Item *data_ = nullptr;
  size_t size_ = 0;
};

// A point in the frame's pixels.
struct Point {
  float x = 0, y = 0;
  float score = 1;         // 1 if the network gives none
  int index = 0;           // the number of the point
  std::string_view label;  // the heatmap's name in info().labels; empty if there is none
};

// An object in a frame. The box is in the frame's pixels, from its left upper corner on.
struct Box {
  float x = 0, y = 0, width = 0, height = 0, score = 0;
  int index = 0;           // the number of the class
  std::string_view label;  // the class's name in info().labels; empty if there is none
  View<Point> points;      // the keypoints, of a package for keypoints
};

// A class of a frame with its probability.
struct Class {
  float score = 0;
  int index = 0;
  std::string_view label;  // as in Box
};

// A byte for each pixel of the frame, or of the network's input if the package says so, row by row. `pixels` is null if
// the package makes no such map.
struct Map {
  int height = 0, width = 0;
  const uint8_t *pixels = nullptr;
};

// A line of text.
struct Text {
  std::string_view text;  // UTF-8. A symbol without a label is written as its number in angle brackets
  float score = 0;        // the mean probability of the characters, or 0 without any
  View<int> symbols;      // the numbers of the symbols in the network's output
};

// The results of a frame, the best first. Only the fields of the package's kinds are filled.
struct Results {
  std::vector<Box> boxes;          // of boxes, masks and keypoints
  Map masks;                       // the object at each pixel, 1 + its place in `boxes`; 0: none
  std::vector<Class> classes;      // of classes, of all of them one after the other
  Map segmentation;                // the class of each pixel; 255: the network has not seen it
  std::vector<Map> segmentations;  // a map for each segmentation of the package; `segmentation` is the first
  Text text;                       // of text
  View<float> vector;              // of vector
  std::vector<Point> points;       // of heatmaps, a point for each
  // The network's, in the host's memory: those of `raw`, or all of a package without `postprocess`, where an output
  // whose length depends on data has its real length.
  std::vector<Tensor> outputs;
  // What all of the above was read from: Arrays of results in docs/reference/mod-json.md.
  std::vector<Tensor> arrays;
};

// What is left out is found by the number of bytes, and in the package.
struct FrameOptions {
  std::string encoding;                  // needed if frames of several encodings have as many bytes
  int width = 0;                         // needed if frames of this encoding have as many bytes, but other sides
  std::optional<double> score, overlap;  // instead of those of the first in info().postprocess that has them
  std::vector<Tensor> inputs;            // those beside the picture, in the order of info().inputs
};

// A model whose code and weights are linked into the program, as in examples/static_library.
struct LinkedModel {
  std::string prefix;    // the prefix of its functions' names
  std::string mod_json;  // the text of mod.json
};

// The threads of a session's calls. All sessions of a process, Python's too, share their threads.
struct ThreadOptions {
  // The number of threads of one call. 0: TVM_NUM_THREADS, or else the number of cores that the package was tuned for,
  // but at most the available cores: those of the process's affinity and of its control groups' quota.
  int threads = 0;
  std::vector<int> cores = {};  // the cores on which calls run; empty: wherever the process may run
  int priority = 0;             // idle threads help the calls of the highest priority first
};

// The error of a call that call_async() has not made.
class Cancelled : public Error {
 public:
  using Error::Error;
};

// Takes the outputs of a call, or its error and no outputs. It must not throw.
using Done = std::function<void(std::vector<Tensor> outputs, std::exception_ptr error)>;

// Takes the results of a frame, which are valid until it returns, or an error and empty results. It must not throw.
using FrameDone = std::function<void(const Results &results, std::exception_ptr error)>;

// A package that was not taken, and why.
struct PassedOver {
  std::string package, reason;
};

class Session {
 public:
  // Load a package, or the first of a pack (`tvmbuild pack`) that this machine can run.
  explicit Session(const std::string &package, int threads = 0);
  Session(const std::string &package, const ThreadOptions &threads);
  // Load the first of several packages and packs that this machine can run; passed_over() has the others before it.
  static Session first_of(const std::vector<std::string> &packages, const ThreadOptions &threads = {});
  // Use a linked model. This reads and loads no files. The model runs on the thread pool of TVM's runtime.
  explicit Session(const LinkedModel &model);
  ~Session();
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;

  const Info &info() const;
  int threads() const;
  const std::vector<PassedOver> &passed_over() const;
  // The sizes of a package whose shapes vary, each as the values of its letters, the smallest first.
  std::vector<std::map<std::string, int64_t>> sizes() const;
  // Return the session of one of sizes() alone, which shares the weights and threads, and is valid as long as this one.
  // Its inputs and results are its own. Its frames are for this size; those of this session are for the largest.
  Session &at(const std::map<std::string, int64_t> &size);

  // Return an uninitialised array in the host's memory for an input, by its place in info().inputs. For CUDA and Vulkan
  // the card copies from it by itself, in half the time or less, and an integrated CUDA card (Jetson) reads it.
  Tensor make_input(size_t place) const;
  // Set the inputs, in the order of info().inputs. They are not copied, so their contents may change between calls. A
  // package for a GPU copies inputs in the host's memory to its device in each call(), but not inputs on the device.
  // A package with sizes runs at the smallest one that fits. Between two sizes, call() copies the inputs into larger
  // ones, and outputs() cuts what padding added, along the letters that the build has found to be harmless. A batch
  // in a range runs in parts: call() joins their outputs in the host's memory.
  void bind(const std::vector<Tensor> &inputs);
  // Run on the bound inputs, and return when the device has finished.
  void call();
  // Run on the bound inputs after the work that is on a CUDA stream (a cudaStream_t) now, and let later work on it wait
  // for the outputs: outputs_in_place() has them. Do not wait: inputs in the host's memory must not change until then.
  void call_on_stream(void *stream);
  // Return the outputs of the last call() in the host's memory, in the order of info().outputs. They are copies, or on
  // an integrated card what its kernels wrote; later calls do not change them. An output whose length depends on data
  // has its real length.
  std::vector<Tensor> outputs() const;
  // Copy the outputs of the last call() into tensors that outputs() returned earlier. Unless inputs were padded, this
  // allocates nothing. An output
  // whose length depends on data needs a Tensor of info().outputs: it is copied whole, with zeros after its length.
  void copy_outputs(const std::vector<Tensor> &to) const;
  // Return the real shapes of the outputs of the last call(), in the order of info().outputs.
  std::vector<std::vector<int64_t>> output_shapes() const;
  // Return the outputs of the last call() without copying them, for example as inputs of another session. Later calls
  // do not change them: if the model returns an input, that output is a copy. An output whose length depends on data is
  // whole, with zeros after its length, and so are the outputs for padded inputs.
  std::vector<Tensor> outputs_in_place() const;
  // Return a copy on the package's device, or the tensor itself if the device is a CPU or the tensor is on a device.
  Tensor to_device(const Tensor &tensor) const;
  // Call bind(), call() and outputs().
  std::vector<Tensor> run(const std::vector<Tensor> &inputs);

  // Return at once; a thread of the session runs on the inputs, in order, and calls `done` with the outputs in the
  // host's memory. The inputs must not change until then. One call runs; on a GPU three do, so that copies
  // overlap kernels. While a further one waits, this waits; if `newest`, the call that waits is Cancelled instead, and
  // the new one is the next when the others are done: the newest frame of a camera. The calls have a virtual machine of
  // their own, so all other functions may be used meanwhile, also in `done`. Any thread may call this and wait_async().
  // The end of the session cancels the call that waits, and waits for those that run. A call that a callback adds
  // during the end is Cancelled at once, so `done` must not add another call when it gets Cancelled.
  void call_async(std::vector<Tensor> inputs, Done done, bool newest = false);
  // Do the same with run_frame(), in one order with the calls of call_async(). The bytes must not change until `done`
  // is called.
  void run_frame_async(const uint8_t *bytes, size_t size, FrameDone done, const FrameOptions &options = {},
                       bool newest = false);
  // Wait until all calls of call_async() and run_frame_async() are done.
  void wait_async();
  // Cancel the call that waits, and wait for those that run, as the session's end does; but the session takes further
  // calls. In `done` it does not wait for the call that `done` belongs to, and calls `done` of the others itself.
  void end_async();

  // Run on a camera's frame of `size` bytes, one of info().frames, from its bytes to the result, which is valid until
  // the next run_frame() or the session's end. This is independent of bind() and call(). On a CPU, bytes at a multiple
  // of 64 are not copied. After the first frame of each kind, this library allocates nothing.
  const Results &run_frame(const uint8_t *bytes, size_t size, const FrameOptions &options = {});
  // Return the network's input that run_frame() makes of a frame, in the host's memory. Only `encoding` and `width` of
  // the options are read.
  Tensor prepare_frame(const uint8_t *bytes, size_t size, const FrameOptions &options = {});

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  void close() noexcept;
  void open(const detail::PackagePlace &place, const ThreadOptions &wish);
  void open_first(const std::vector<detail::PackagePlace> &places, std::vector<PassedOver> passed_over,
                  const ThreadOptions &wish);
  Session &open(size_t place);
  void bind_size(const std::vector<Tensor> &inputs);
  void bind_parts(const std::vector<Tensor> &inputs, const std::vector<detail::BatchPart> &parts,
                  std::map<std::string, int64_t> size);
  std::vector<Tensor> take_outputs() const;
  void copy_size_outputs(const std::vector<Tensor> &to) const;
  void prepare_frames();
  void start();
  void wait();
  std::vector<Tensor> finish();
  void start_frame(const uint8_t *bytes, size_t size, const FrameOptions &options);
  const Results &finish_frame();
  struct Background;
  struct Place;
  void add_job(const std::function<detail::Job(const std::shared_ptr<Place> &)> &make);
  std::unique_ptr<Impl> impl_;
};

// Read mod.json, that of the first package if it is a pack, and check it and the digests of the package's files. The
// code is not loaded.
Info read_info(const std::string &package);

// Convert a picture into an input, with the same bits as tvmbuild's Python code. If `rules` is null, the package's
// rules are used.
Tensor preprocess(const Info &info, const Picture &picture, const Preprocess *rules = nullptr);
// Return the index in info.inputs of the input that the rules are for.
size_t picture_input(const Info &info, const Preprocess &rules);

// Return the `count` most likely classes of a float32 output with one score per class. If a score lies outside [0, 1],
// the probabilities are the softmax of the scores.
std::vector<RankedClass> rank_classes(const Tensor &scores, const std::vector<std::string> &labels, size_t count);

}  // namespace tvmbuild
