/* The C interface of tvmbuild: it reads, checks and runs packages. docs/how-to/c.md is the manual.
 *
 * Rules for all functions:
 * - A function returns TVMBUILD_OK, or another tvmbuild_status; then tvmbuild_last_error() has a sentence for users,
 * and the function has written nothing to its last argument.
 * - No C++ exception leaves a function, and none ends the process. A null pointer, a closed handle or a handle of
 *   another kind is TVMBUILD_ARGUMENT.
 * - A handle is not an address. tvmbuild_close() closes handles of all kinds, once each.
 * - Functions may be called from any thread. Calls on one session wait for each other; sessions are independent.
 * - A struct with a `size` grows in later versions: set it to sizeof of the struct. All other structs stay as they are
 *   for one TVMBUILD_ABI. In options, 0 and null mean the default.
 * - Strings are UTF-8. Those that a function returns are never null; an absent one is empty.
 */
#ifndef TVMBUILD_H
#define TVMBUILD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TVMBUILD_API __attribute__((visibility("default")))
#else
#define TVMBUILD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these declarations. It is the number of libtvmbuild.so's soname. */
#define TVMBUILD_ABI 1

typedef enum tvmbuild_status {
  TVMBUILD_OK = 0,
  TVMBUILD_ARGUMENT = 1, /* a null pointer, a closed handle, a place beyond the end, a struct of another version */
  TVMBUILD_PACKAGE = 2,  /* a package that is damaged, cannot be read, or cannot run on this machine */
  TVMBUILD_CALL = 3,     /* inputs or frames that do not fit, or a failure of the device */
  TVMBUILD_MEMORY = 4,   /* too little memory */
  TVMBUILD_INTERNAL = 5, /* a fault of this library */
  TVMBUILD_CANCELLED = 6 /* of tvmbuild_done: the call was not made */
} tvmbuild_status;

typedef struct tvmbuild_session tvmbuild_session; /* a loaded package */
typedef struct tvmbuild_package tvmbuild_package; /* the metadata of a package */
typedef struct tvmbuild_tensor tvmbuild_tensor;   /* an array that TVM uses without a copy */
struct DLManagedTensor;                           /* of dlpack/dlpack.h */

/* Return the TVMBUILD_ABI of the loaded library. Compare it with this header's if you load the library yourself. */
TVMBUILD_API uint32_t tvmbuild_abi(void);
/* Return the message of this thread's last failed call; it is valid until this thread's next failed call. */
TVMBUILD_API const char *tvmbuild_last_error(void);
/* Close a handle of any kind, after the calls that use it. What it owns becomes invalid. Null is allowed. */
TVMBUILD_API tvmbuild_status tvmbuild_close(void *handle);

/* ---- Loading ---- */

typedef struct tvmbuild_load_options {
  size_t size;
  int32_t threads;  /* of one call; 0: TVM_NUM_THREADS, else the cores that the package was tuned for, if available */
  int32_t priority; /* idle threads help the calls of the highest priority first */
  const int32_t *cores; /* the cores on which calls run; null: wherever the process may run */
  size_t core_count;
} tvmbuild_load_options;

/* Load the first of `count` packages that this machine can run. A pack stands for its packages, in its order.
 * `options` may be null. */
TVMBUILD_API tvmbuild_status tvmbuild_load(const char *const *paths, size_t count, const tvmbuild_load_options *options,
                                           tvmbuild_session **session);
/* Use a model that is linked into the program, by the prefix of its functions and the text of its mod.json. */
TVMBUILD_API tvmbuild_status tvmbuild_load_linked(const char *prefix, const char *mod_json, tvmbuild_session **session);
/* Return why packages before the loaded one were passed over: a line `path: reason` for each, or
 * `path: name: reason` in a pack; empty if none was. They are valid until the session is closed. */
TVMBUILD_API tvmbuild_status tvmbuild_passed_over(tvmbuild_session *session, const char **lines);
/* Return the number of threads of one call. */
TVMBUILD_API tvmbuild_status tvmbuild_threads(tvmbuild_session *session, int32_t *threads);

/* ---- Metadata: the strings and arrays are valid until the tvmbuild_package is closed ---- */

/* Read a package's metadata, and check all of its files' digests. The code is not loaded. */
TVMBUILD_API tvmbuild_status tvmbuild_read_package(const char *path, tvmbuild_package **package);
/* Return the metadata of a session as its own handle, which may outlive the session. */
TVMBUILD_API tvmbuild_status tvmbuild_describe(tvmbuild_session *session, tvmbuild_package **package);

typedef struct tvmbuild_package_info {
  size_t size;
  const char *model, *target, *kind; /* kind: llvm, cuda or vulkan */
  const char *const *labels;         /* the names of the classes, the characters of a text */
  size_t label_count;
  size_t input_count, output_count, frame_count, result_count, size_count;
  int32_t cores;          /* the number of cores that the package was tuned for */
  int32_t tasks, covered; /* the number of Tasks, and of Tasks with a record */
} tvmbuild_package_info;

typedef struct tvmbuild_tensor_info {
  size_t size;
  const char *name, *dtype; /* dtype: NumPy's name of the type, for example float32 */
  const int64_t *shape;     /* with the largest length along axes whose length depends on data */
  size_t rank, bytes;
  const size_t *counted; /* the axes whose length depends on data */
  size_t counted_count;
} tvmbuild_tensor_info;

typedef struct tvmbuild_frame_info {
  size_t size;
  const char *encoding, *interpolation;
  int32_t height, width, stride; /* stride: the distance of two rows in bytes; 0: there are no gaps between rows */
  int32_t crop_top, crop_left, crop_height, crop_width; /* the part that is used */
  size_t bytes;
} tvmbuild_frame_info;

typedef struct tvmbuild_result_info {
  size_t size;
  const char *kind;              /* boxes, masks, keypoints, classes, segmentation, text, vector, heatmaps or raw */
  const double *score, *overlap; /* the thresholds; null if the kind has none */
  int32_t most;                  /* the largest number of results; 0: there is no limit */
  int32_t points, values;        /* of keypoints: the points of an object, and the numbers of a point */
  const char *blank;             /* of a text: whether the symbol for no character is the first or the last */
  const char *const *labels;     /* the names of its own classes or points; none: those of the package */
  size_t label_count;
  const char *const *outputs; /* the names of the outputs that it reads; none: the first ones */
  size_t output_count;
  int32_t in_input; /* 1: a map has the pixels of the network's input, and not those of the frame */
} tvmbuild_result_info;

/* A size of a package whose shapes vary: the values of its letters. */
typedef struct tvmbuild_size_info {
  size_t size;
  const char *const *letters;
  const int64_t *values;
  size_t count;
} tvmbuild_size_info;

/* The rules for converting a picture into an input. */
typedef struct tvmbuild_preprocess_info {
  size_t size;
  const char *input;            /* the input's name; empty if the model has only one */
  const char *resize, *color;   /* resize: stretch, letterbox or crop; color: rgb, bgr or gray */
  const char *layout, *align;   /* layout: NCHW or NHWC; align: center or top-left */
  double scale, crop_pct;       /* crop_pct: the share of the shorter side that `crop` keeps */
  const double *mean, *std;     /* a number for each channel */
  size_t mean_count, std_count; /* 0: no mean is subtracted, nothing is divided */
  int32_t fill;                 /* the byte around a letterboxed picture */
  int32_t place;                /* of the input among all inputs */
} tvmbuild_preprocess_info;

TVMBUILD_API tvmbuild_status tvmbuild_package_describe(tvmbuild_package *package, tvmbuild_package_info *info);
TVMBUILD_API tvmbuild_status tvmbuild_package_input(tvmbuild_package *package, size_t at, tvmbuild_tensor_info *info);
TVMBUILD_API tvmbuild_status tvmbuild_package_output(tvmbuild_package *package, size_t at, tvmbuild_tensor_info *info);
TVMBUILD_API tvmbuild_status tvmbuild_package_frame(tvmbuild_package *package, size_t at, tvmbuild_frame_info *info);
TVMBUILD_API tvmbuild_status tvmbuild_package_result(tvmbuild_package *package, size_t at, tvmbuild_result_info *info);
TVMBUILD_API tvmbuild_status tvmbuild_package_size(tvmbuild_package *package, size_t at, tvmbuild_size_info *info);
/* Describe how pictures become an input. TVMBUILD_CALL: the package does not say. */
TVMBUILD_API tvmbuild_status tvmbuild_package_preprocess(tvmbuild_package *package, tvmbuild_preprocess_info *info);

/* ---- One size of a package with sizes ---- */

/* Return the session of a size alone, one of tvmbuild_package_size(). Its inputs and its frames have this size. Inputs
 * and results are its own; weights and threads are those of `session`, which lives until both handles are closed. Equal
 * sizes have one session, with a handle for each call. */
TVMBUILD_API tvmbuild_status tvmbuild_at(tvmbuild_session *session, const tvmbuild_size_info *size,
                                         tvmbuild_session **part);

/* ---- From a camera's frame to the results ---- */

typedef struct tvmbuild_frame_options {
  size_t size;
  const char *encoding;           /* needed if frames of several encodings have as many bytes */
  int32_t width;                  /* needed if frames of this encoding have as many bytes, but other sides */
  const double *score, *overlap;  /* instead of the package's thresholds */
  tvmbuild_tensor *const *inputs; /* the network's inputs beside the picture, in their order */
  size_t input_count;
  int32_t newest; /* of tvmbuild_run_frame_async: as in tvmbuild_call_async */
} tvmbuild_frame_options;

typedef struct tvmbuild_point {
  float x, y; /* in the frame's pixels */
  float score;
  int32_t index; /* the number of the point */
  const char *label;
} tvmbuild_point;

typedef struct tvmbuild_box {
  float x, y, width, height; /* in the frame's pixels, from the left upper corner on */
  float score;
  int32_t index; /* the number of the class */
  const char *label;
  const tvmbuild_point *points; /* of a package for keypoints */
  size_t point_count;
} tvmbuild_box;

typedef struct tvmbuild_class {
  float score;
  int32_t index;
  const char *label;
} tvmbuild_class;

/* A byte for each pixel of the frame, or of the network's input if the package says so, row by row. `pixels` is null if
 * the package makes no such map. */
typedef struct tvmbuild_map {
  int32_t height, width;
  const uint8_t *pixels;
} tvmbuild_map;

/* A view of an array in the host's memory: contiguous, its last axis the fastest. */
typedef struct tvmbuild_array {
  void *data;
  const int64_t *shape;
  size_t rank;
  const char *dtype;
} tvmbuild_array;

/* The results of a frame, the best first. Only the fields of the package's kinds are filled. */
typedef struct tvmbuild_results {
  size_t size;
  const tvmbuild_box *boxes;
  size_t box_count;
  const tvmbuild_class *classes;
  size_t class_count;
  const tvmbuild_point *points; /* of heatmaps */
  size_t point_count;
  tvmbuild_map masks;        /* the object at each pixel, 1 + its place in `boxes`; 0: none */
  tvmbuild_map segmentation; /* the class of each pixel; 255: the network has not seen it */
  const char *text;          /* a line of text */
  float text_score;          /* the mean probability of its characters */
  const int32_t *symbols;    /* the numbers of its symbols in the network's output */
  size_t symbol_count;
  const float *vector;
  size_t vector_count;
  const tvmbuild_array *outputs; /* those of `raw`; without `postprocess` all, in their real lengths */
  size_t output_count;
  const tvmbuild_map *segmentations; /* a map for each segmentation of the package; `segmentation` is the first */
  size_t segmentation_count;
} tvmbuild_results;

/* Run on the bytes of one of the package's frames. The results are valid until the session's next tvmbuild_run_frame.
 * `options` may be null. Bytes at a multiple of 64 are not copied on a CPU. After the first frame of each kind, this
 * library allocates nothing. */
TVMBUILD_API tvmbuild_status tvmbuild_run_frame(tvmbuild_session *session, const uint8_t *bytes, size_t byte_count,
                                                const tvmbuild_frame_options *options, tvmbuild_results *results);

/* Make a tensor in the host's memory: the network's input that tvmbuild_run_frame makes of a frame. Only `encoding` and
 * `width` of the options are read. */
TVMBUILD_API tvmbuild_status tvmbuild_prepare_frame(tvmbuild_session *session, const uint8_t *bytes, size_t byte_count,
                                                    const tvmbuild_frame_options *options, tvmbuild_tensor **input);

/* ---- Arrays ---- */

/* Run on arrays in the host's memory, in the order of the package's inputs, which are copied. The outputs are valid
 * until the session's next tvmbuild_run. An output whose length depends on data has its real length. */
TVMBUILD_API tvmbuild_status tvmbuild_run(tvmbuild_session *session, const tvmbuild_array *inputs, size_t input_count,
                                          const tvmbuild_array **outputs, size_t *output_count);

/* Make an array of zeros in the host's memory. */
TVMBUILD_API tvmbuild_status tvmbuild_tensor_create(const char *name, const char *dtype, const int64_t *shape,
                                                    size_t rank, tvmbuild_tensor **tensor);
/* Take over an array of another library, on the host or a device: contiguous, 64-byte aligned and ready. Its deleter is
 * called when its last user is gone, or at once after an error other than a null pointer. */
TVMBUILD_API tvmbuild_status tvmbuild_tensor_from_dlpack(const char *name, struct DLManagedTensor *given,
                                                         tvmbuild_tensor **tensor);
/* Share the memory with another library, which must call the deleter. */
TVMBUILD_API tvmbuild_status tvmbuild_tensor_to_dlpack(tvmbuild_tensor *tensor, struct DLManagedTensor **shared);
/* Make a tensor in the host's memory: a copy, or a second handle of a tensor that is already there. */
TVMBUILD_API tvmbuild_status tvmbuild_tensor_to_host(tvmbuild_tensor *tensor, tvmbuild_tensor **there);
/* Make a tensor on the session's device: a copy, or a second handle of a tensor that is already on it. */
TVMBUILD_API tvmbuild_status tvmbuild_tensor_to_device(tvmbuild_session *session, tvmbuild_tensor *tensor,
                                                       tvmbuild_tensor **there);
/* Return the tensor's memory, valid until the tensor is closed, and whether it is the host's. On a device, `data` is
 * CUDA's address, or a handle of the Vulkan runtime. */
TVMBUILD_API tvmbuild_status tvmbuild_tensor_view(tvmbuild_tensor *tensor, tvmbuild_array *array, int32_t *on_host);

/* Set the inputs of tvmbuild_call, which are not copied. Their contents may change between calls. */
TVMBUILD_API tvmbuild_status tvmbuild_bind(tvmbuild_session *session, tvmbuild_tensor *const *inputs, size_t count);
/* Run on the bound inputs, and return when the device has finished. */
TVMBUILD_API tvmbuild_status tvmbuild_call(tvmbuild_session *session);
/* Run on the bound inputs after the work that is on a CUDA stream (a cudaStream_t) now, and let later work on it wait
 * for the outputs: tvmbuild_outputs_in_place() has them. Do not wait: inputs in the host's memory must not change until
 * then. */
TVMBUILD_API tvmbuild_status tvmbuild_call_on_stream(tvmbuild_session *session, void *stream);
/* Write `count` new tensors: copies of the outputs of the last tvmbuild_call in the host's memory. */
TVMBUILD_API tvmbuild_status tvmbuild_outputs(tvmbuild_session *session, tvmbuild_tensor **outputs, size_t count);
/* Write `count` new tensors: the outputs themselves, on the device, for example as inputs of another session. */
TVMBUILD_API tvmbuild_status tvmbuild_outputs_in_place(tvmbuild_session *session, tvmbuild_tensor **outputs,
                                                       size_t count);
/* Copy the outputs of the last tvmbuild_call into tensors of their shapes in the host's memory. */
TVMBUILD_API tvmbuild_status tvmbuild_copy_outputs(tvmbuild_session *session, tvmbuild_tensor *const *to, size_t count);
/* Return the real shape of an output of the last tvmbuild_call, valid until the session's next call of this. */
TVMBUILD_API tvmbuild_status tvmbuild_output_shape(tvmbuild_session *session, size_t at, const int64_t **shape,
                                                   size_t *rank);

/* ---- Calls that do not wait ---- */

/* Takes the outputs of a call, or another status and none; then tvmbuild_last_error() says why. The tensors are closed
 * after it: tvmbuild_tensor_to_host() makes a handle that stays, without a copy. `context` is that of the call. All
 * functions may be called in it, tvmbuild_close() of the session too, but not tvmbuild_wait_async(). */
typedef void (*tvmbuild_done)(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t count);

/* Return at once; a thread of the session runs on the inputs, in order, and calls `done`, once, with the outputs in the
 * host's memory. The inputs must not change until then, but their handles may be closed. One call runs; on a GPU three
 * do, so that copies overlap kernels. While a further one waits, this waits; if `newest` is not 0, the call that
 * waits is cancelled instead, and the new one is the next when the others are done: the newest frame of a camera.
 * Closing the session's last handle cancels the call that waits, and waits for those that run; a session of
 * tvmbuild_at() may be opened again. Other calls on the session do not wait for these. After an error of this function,
 * `done` is not called. */
TVMBUILD_API tvmbuild_status tvmbuild_call_async(tvmbuild_session *session, tvmbuild_tensor *const *inputs,
                                                 size_t count, int32_t newest, tvmbuild_done done, void *context);

/* Takes the results of a frame, which are valid until it returns, or another status and null. See tvmbuild_done. */
typedef void (*tvmbuild_frame_done)(void *context, tvmbuild_status status, const tvmbuild_results *results);

/* Do the same with tvmbuild_run_frame, in one order with the calls of tvmbuild_call_async. The bytes must not change
 * until `done` is called; `options` may be null. */
TVMBUILD_API tvmbuild_status tvmbuild_run_frame_async(tvmbuild_session *session, const uint8_t *bytes,
                                                      size_t byte_count, const tvmbuild_frame_options *options,
                                                      tvmbuild_frame_done done, void *context);
/* Wait until all calls of tvmbuild_call_async and tvmbuild_run_frame_async are done. */
TVMBUILD_API tvmbuild_status tvmbuild_wait_async(tvmbuild_session *session);

/* ---- Pictures, for packages without frames ---- */

/* Convert a picture into an input. It has 1 byte (grey) or 3 bytes (red, green, blue) a pixel, without gaps between
 * rows. `rules` replace the package's if they are not null; their `place` is not read. */
TVMBUILD_API tvmbuild_status tvmbuild_preprocess(tvmbuild_package *package, const uint8_t *pixels, int32_t width,
                                                 int32_t height, int32_t channels,
                                                 const tvmbuild_preprocess_info *rules, tvmbuild_tensor **input);
/* Write at most `room` of the likeliest classes of a float32 output with one score per class, and their number. Their
 * labels, the package's, are valid until the package is closed. */
TVMBUILD_API tvmbuild_status tvmbuild_rank_classes(tvmbuild_package *package, tvmbuild_tensor *scores, size_t room,
                                                   tvmbuild_class *classes, size_t *count);

#ifdef __cplusplus
}
#endif

#endif /* TVMBUILD_H */
