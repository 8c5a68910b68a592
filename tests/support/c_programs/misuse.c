// misuse PACKAGE FRAMES: calls tvmbuild.h in wrong ways. It prints a line `status name: message` for each call, and
// ends with "done". Every call must be refused, and the sessions must still work afterwards. PACKAGE has one input,
// FRAMES takes frames of bgr8 too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmbuild.h>

#include "checked.h"

static void told(const char *name, tvmbuild_status status) {
  printf("%d %s: %s\n", (int)status, name, status == TVMBUILD_OK ? "" : tvmbuild_last_error());
}
#define TELL(call) told(#call, call)

static void ignore(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t count) {
  (void)context, (void)status, (void)outputs, (void)count;
  exit(10);  // refused calls call nothing back
}

static void try_null(const char *path, tvmbuild_session *session, tvmbuild_package *package, tvmbuild_tensor *tensor) {
  const char *none = NULL;
  tvmbuild_session *new_session = NULL;
  tvmbuild_tensor *new_tensor = NULL, *no_tensor = NULL;
  tvmbuild_package_info info = {.size = sizeof(info)};
  const tvmbuild_array *outputs = NULL;
  size_t count = 0;
  tvmbuild_array empty = {0};
  int64_t length = 1;
  TELL(tvmbuild_load(NULL, 1, NULL, &new_session));
  TELL(tvmbuild_load(&none, 1, NULL, &new_session));
  TELL(tvmbuild_load(&path, 0, NULL, &new_session));
  TELL(tvmbuild_load(&path, 1, NULL, NULL));
  TELL(tvmbuild_load_linked(NULL, "{}", &new_session));
  TELL(tvmbuild_read_package(path, NULL));
  TELL(tvmbuild_read_package(NULL, &package));
  TELL(tvmbuild_describe(NULL, &package));
  TELL(tvmbuild_package_describe(package, NULL));
  TELL(tvmbuild_package_describe(NULL, &info));
  TELL(tvmbuild_threads(session, NULL));
  TELL(tvmbuild_passed_over(session, NULL));
  TELL(tvmbuild_run(session, NULL, 1, &outputs, &count));
  TELL(tvmbuild_run(session, &empty, 1, NULL, &count));
  TELL(tvmbuild_run(session, &empty, 1, &outputs, &count));
  TELL(tvmbuild_bind(session, NULL, 1));
  TELL(tvmbuild_bind(session, &no_tensor, 1));
  TELL(tvmbuild_call_async(session, NULL, 1, 0, ignore, NULL));
  TELL(tvmbuild_call_async(session, &no_tensor, 1, 0, ignore, NULL));
  TELL(tvmbuild_call_async(session, &tensor, 1, 0, NULL, NULL));
  TELL(tvmbuild_call_async(NULL, &tensor, 1, 0, ignore, NULL));
  TELL(tvmbuild_wait_async(NULL));
  TELL(tvmbuild_run_frame(session, NULL, 5, NULL, NULL));
  TELL(tvmbuild_prepare_frame(session, NULL, 5, NULL, &new_tensor));
  TELL(tvmbuild_tensor_create(NULL, "float32", &length, 1, &new_tensor));
  TELL(tvmbuild_tensor_create("x", NULL, &length, 1, &new_tensor));
  TELL(tvmbuild_tensor_create("x", "float32", NULL, 1, &new_tensor));
  TELL(tvmbuild_tensor_from_dlpack("x", NULL, &new_tensor));
  TELL(tvmbuild_tensor_to_dlpack(tensor, NULL));
  TELL(tvmbuild_tensor_view(tensor, NULL, NULL));
  TELL(tvmbuild_tensor_to_device(session, NULL, &new_tensor));
  TELL(tvmbuild_preprocess(package, NULL, 1, 1, 3, NULL, &new_tensor));
  TELL(tvmbuild_rank_classes(package, tensor, 5, NULL, &count));
}

static void try_shapes(tvmbuild_session *session, tvmbuild_package *package, tvmbuild_tensor *tensor) {
  tvmbuild_tensor *made = NULL;
  const tvmbuild_array *outputs = NULL;
  size_t count = 0, rank = 0;
  int64_t negative[] = {-1, 2}, huge[] = {INT64_MAX, INT64_MAX}, most[] = {1, 1, 28, 29};
  const int64_t *shape = NULL;
  float numbers[28 * 28] = {0};
  tvmbuild_array input = {numbers, most, 4, "float32"};
  uint8_t pixel[3] = {0};
  TELL(tvmbuild_tensor_create("x", "float32", negative, 2, &made));
  TELL(tvmbuild_tensor_create("x", "float32", huge, 2, &made));
  TELL(tvmbuild_tensor_create("x", "float32", huge, 1000, &made));
  TELL(tvmbuild_tensor_create("x", "no type", most, 4, &made));
  TELL(tvmbuild_run(session, &input, 1, &outputs, &count));
  input.rank = SIZE_MAX;
  TELL(tvmbuild_run(session, &input, 1, &outputs, &count));
  most[3] = 28;
  input.rank = 4;
  input.dtype = "int8";
  TELL(tvmbuild_run(session, &input, 1, &outputs, &count));
  input.dtype = "float32";
  TELL(tvmbuild_run(session, &input, 2, &outputs, &count));
  TELL(tvmbuild_run(session, &input, 0, &outputs, &count));
  TELL(tvmbuild_bind(session, &tensor, 1));
  TELL(tvmbuild_call(session));
  TELL(tvmbuild_output_shape(session, 9, &shape, &rank));
  TELL(tvmbuild_outputs(session, &made, 2));
  TELL(tvmbuild_copy_outputs(session, &tensor, 1));
  TELL(tvmbuild_preprocess(package, pixel, -1, 1, 3, NULL, &made));
  TELL(tvmbuild_preprocess(package, pixel, 1, 1, 2, NULL, &made));
  tvmbuild_tensor_info info = {.size = sizeof(info)};
  TELL(tvmbuild_package_input(package, 1, &info));
  TELL(tvmbuild_package_output(package, SIZE_MAX, &info));
  tvmbuild_frame_info frame = {.size = sizeof(frame)};
  TELL(tvmbuild_package_frame(package, 0, &frame));
  tvmbuild_preprocess_info rules = {.size = sizeof(rules)};
  TELL(tvmbuild_package_preprocess(package, &rules));
}

static void try_sizes(const char *path, tvmbuild_package *package) {
  tvmbuild_session *session = NULL;
  tvmbuild_package_info info = {.size = 0};
  tvmbuild_load_options options = {.size = sizeof(options) - 1};
  TELL(tvmbuild_package_describe(package, &info));
  TELL(tvmbuild_load(&path, 1, &options, &session));
  struct {
    tvmbuild_load_options known;
    int64_t later;
  } newer = {.known = {.size = sizeof(newer)}, .later = 1};
  TELL(tvmbuild_load(&path, 1, &newer.known, &session));
  newer.known.threads = 99999;
  newer.later = 0;
  TELL(tvmbuild_load(&path, 1, &newer.known, &session));
  newer.known.threads = -1;
  TELL(tvmbuild_load(&path, 1, &newer.known, &session));
  newer.known.threads = 0;
  newer.known.core_count = 1;
  TELL(tvmbuild_load(&path, 1, &newer.known, &session));
  int32_t core = 4000;
  newer.known.cores = &core;
  TELL(tvmbuild_load(&path, 1, &newer.known, &session));
  core = -5;
  TELL(tvmbuild_load(&path, 1, &newer.known, &session));
  struct {
    tvmbuild_package_info known;
    int64_t later;
  } read = {.known = {.size = sizeof(read)}, .later = 7};
  check(tvmbuild_package_describe(package, &read.known));
  if (read.later != 0 || read.known.size != sizeof(read)) exit(5);  // a field that the library does not know
}

static void try_at(tvmbuild_session *session) {
  const char *letters[] = {"B", NULL};
  const int64_t values[] = {2, 3};
  tvmbuild_session *at = NULL;
  tvmbuild_size_info size = {sizeof(size), letters, values, 1};
  TELL(tvmbuild_at(session, &size, &at));  // the package has one shape
  TELL(tvmbuild_at(NULL, &size, &at));
  TELL(tvmbuild_at(session, NULL, &at));
  TELL(tvmbuild_at(session, &size, NULL));
  size.count = 2;
  TELL(tvmbuild_at(session, &size, &at));
  size.letters = NULL;
  TELL(tvmbuild_at(session, &size, &at));
  size.letters = letters, size.values = NULL;
  TELL(tvmbuild_at(session, &size, &at));
  size.size = 1;
  TELL(tvmbuild_at(session, &size, &at));
}

static void try_frames(tvmbuild_session *session) {
  static uint8_t bytes[90 * 120 * 3];
  const double score = 0.5;
  tvmbuild_tensor *prepared = NULL;
  tvmbuild_results results = {.size = sizeof(results)};
  tvmbuild_frame_options options = {.size = sizeof(options)};
  TELL(tvmbuild_run_frame(session, bytes, 7, NULL, &results));
  TELL(tvmbuild_prepare_frame(session, bytes, 7, NULL, &prepared));
  TELL(tvmbuild_prepare_frame(session, bytes, sizeof(bytes), NULL, &prepared));
  TELL(tvmbuild_run_frame(session, bytes, sizeof(bytes), NULL, &results));
  options.encoding = "an encoding with a very long name that nobody knows";
  TELL(tvmbuild_run_frame(session, bytes, sizeof(bytes), &options, &results));
  options.encoding = "bgr8";
  options.input_count = 1;
  TELL(tvmbuild_run_frame(session, bytes, sizeof(bytes), &options, &results));
  options.input_count = 0;
  TELL(tvmbuild_prepare_frame(session, bytes, sizeof(bytes), &options, NULL));
  results.size = 8;
  TELL(tvmbuild_run_frame(session, bytes, sizeof(bytes), &options, &results));
  results.size = sizeof(results);
  options.score = &score;
  check(tvmbuild_run_frame(session, bytes, sizeof(bytes), &options, &results));
}

static void try_closed(const char *path, tvmbuild_session *used, tvmbuild_tensor *tensor) {
  tvmbuild_session *session = load(path), *again = NULL;
  tvmbuild_package *package = NULL;
  tvmbuild_tensor *closed = NULL;
  tvmbuild_package_info info = {.size = sizeof(info)};
  int64_t length = 3;
  check(tvmbuild_describe(session, &package));
  check(tvmbuild_tensor_create("x", "float32", &length, 1, &closed));
  check(tvmbuild_close(session));
  check(tvmbuild_close(closed));
  check(tvmbuild_close(NULL));
  check(tvmbuild_package_describe(package, &info));  // it outlives the session
  if (info.input_count != 1) exit(6);
  check(tvmbuild_close(package));
  again = load(path);
  TELL(tvmbuild_close(session));
  TELL(tvmbuild_call(session));
  TELL(tvmbuild_close(closed));
  TELL(tvmbuild_bind(used, &closed, 1));
  TELL(tvmbuild_package_describe(package, &info));
  TELL(tvmbuild_close(&length));
  TELL(tvmbuild_call((tvmbuild_session *)(void *)tensor));
  TELL(tvmbuild_package_describe((tvmbuild_package *)(void *)again, &info));
  check(tvmbuild_close(again));
}

// One thread closes a session that others use: each call works, or says that the handle is closed.
static void *run_until_closed(void *session) {
  float numbers[28 * 28] = {0};
  int64_t shape[] = {1, 1, 28, 28};
  tvmbuild_array input = {numbers, shape, 4, "float32"};
  for (;;) {
    const tvmbuild_array *outputs = NULL;
    size_t count = 0;
    tvmbuild_status status = tvmbuild_run(session, &input, 1, &outputs, &count);
    if (status == TVMBUILD_OK) continue;
    return (void *)(status == TVMBUILD_ARGUMENT && strstr(tvmbuild_last_error(), "closed") != NULL ? "" : NULL);
  }
}

static void close_during_calls(const char *path) {
  tvmbuild_session *session = load(path);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    if (pthread_create(&threads[i], NULL, run_until_closed, session) != 0) exit(7);
  }
  for (int i = 0; i < 50; i++) check(tvmbuild_threads(session, &(int32_t){0}));
  float numbers[28 * 28] = {0};
  int64_t shape[] = {1, 1, 28, 28};
  tvmbuild_array input = {numbers, shape, 4, "float32"};
  const tvmbuild_array *outputs = NULL;
  size_t count = 0;
  for (int i = 0; i < 20; i++) check(tvmbuild_run(session, &input, 1, &outputs, &count));
  check(tvmbuild_close(session));
  for (int i = 0; i < 4; i++) {
    void *ended = NULL;
    if (pthread_join(threads[i], &ended) != 0 || ended == NULL) exit(8);
  }
}

int main(int count, char **words) {
  if (count == 2) {  // one package, perhaps damaged
    tvmbuild_session *session = NULL;
    const char *path = words[1];
    tvmbuild_status status = tvmbuild_load(&path, 1, NULL, &session);
    told("tvmbuild_load()", status);
    if ((session != NULL) != (status == TVMBUILD_OK)) return 9;
    check(tvmbuild_close(session));
    return 0;
  }
  tvmbuild_session *session = load(words[1]), *frames = load(words[2]);
  tvmbuild_package *package = NULL;
  tvmbuild_tensor *tensor = NULL;
  int64_t shape[] = {1, 3};
  check(tvmbuild_describe(session, &package));
  check(tvmbuild_tensor_create("x", "float32", shape, 2, &tensor));
  TELL(tvmbuild_call(session));
  try_null(words[1], session, package, tensor);
  try_shapes(session, package, tensor);
  try_sizes(words[1], package);
  try_at(session);
  try_frames(frames);
  try_closed(words[1], session, tensor);
  close_during_calls(words[1]);
  check(tvmbuild_close(tensor));
  check(tvmbuild_close(package));
  check(tvmbuild_close(session));
  check(tvmbuild_close(frames));
  printf("done\n");
  return 0;
}
