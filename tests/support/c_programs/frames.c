// frames PACKAGE FILE CALLS WIDTH OTHER: does by tvmbuild.h what the program of tests/package/test_cpp_frames.py does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmbuild.h>

static long allocated = 0;

// The C++ of the library allocates by this function, C++'s operator new, unless the program has one.
void *_Znwm(size_t size);
void *_Znwm(size_t size) {
  Dl_info from = {0};
  if (dladdr(__builtin_extract_return_addr(__builtin_return_address(0)), &from) != 0 && from.dli_fname != NULL)
    allocated += strstr(from.dli_fname, "libtvmbuild.so") != NULL;
  void *memory = malloc(size);
  if (memory == NULL) abort();
  return memory;
}

static void check(tvmbuild_status status) {
  if (status == TVMBUILD_OK) return;
  fprintf(stderr, "error: %s\n", tvmbuild_last_error());
  exit(1);
}

typedef struct text {
  char *bytes;
  size_t size, room;
} text;

static void add(text *to, const void *data, size_t size) {
  if (to->size + size > to->room) {
    to->room = 2 * (to->size + size);
    to->bytes = realloc(to->bytes, to->room);
    if (to->bytes == NULL) abort();
  }
  if (size != 0) memcpy(to->bytes + to->size, data, size);
  to->size += size;
}

static void add_word(text *to, const char *word) { add(to, word, strlen(word) + 1); }

static void add_map(text *to, tvmbuild_map map) {
  if (map.pixels == NULL) return;
  add(to, &map.height, 4);
  add(to, &map.width, 4);
  add(to, map.pixels, (size_t)map.height * (size_t)map.width);
}

static void add_points(text *to, const tvmbuild_point *points, size_t count) {
  for (size_t i = 0; i < count; i++) {
    add(to, &points[i], 4 * sizeof(float));  // with the index
    add_word(to, points[i].label);
  }
}

static size_t count_bytes(const tvmbuild_array *array) {
  size_t count = strcmp(array->dtype, "int64") == 0 ? 8 : 4;  // float32 otherwise
  for (size_t i = 0; i < array->rank; i++) count *= (size_t)array->shape[i];
  return count;
}

static void describe(text *to, const tvmbuild_results *results) {
  to->size = 0;
  for (size_t i = 0; i < results->box_count; i++) {
    const tvmbuild_box *box = &results->boxes[i];
    add(to, box, 6 * sizeof(float));  // with the index
    add_word(to, box->label);
    add_points(to, box->points, box->point_count);
  }
  add_map(to, results->masks);
  for (size_t i = 0; i < results->class_count; i++) {
    add(to, &results->classes[i], 2 * sizeof(float));
    add_word(to, results->classes[i].label);
  }
  for (size_t i = 0; i < results->segmentation_count; i++) add_map(to, results->segmentations[i]);
  add_word(to, results->text);
  add(to, &results->text_score, sizeof(float));
  add(to, results->symbols, results->symbol_count * sizeof(int32_t));
  add(to, results->vector, results->vector_count * sizeof(float));
  add_points(to, results->points, results->point_count);
  for (size_t i = 0; i < results->output_count; i++) {
    const tvmbuild_array *output = &results->outputs[i];
    if (strcmp(output->dtype, "float32") != 0 && strcmp(output->dtype, "int64") != 0) exit(4);
    add(to, output->shape, output->rank * sizeof(int64_t));
    add(to, output->data, count_bytes(output));
  }
}

int main(int count, char **words) {
  if (count != 6) return 2;
  const char *paths[] = {words[1]};
  tvmbuild_session *session = NULL;
  tvmbuild_package *package = NULL;
  check(tvmbuild_load(paths, 1, NULL, &session));
  check(tvmbuild_describe(session, &package));
  tvmbuild_package_info info = {.size = sizeof(info)};
  check(tvmbuild_package_describe(package, &info));

  FILE *file = fopen(words[2], "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 3;
  size_t size = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(size), *memory = aligned_alloc(64, (size + 127) / 64 * 64);
  if (bytes == NULL || memory == NULL || fread(bytes, 1, size, file) != size) return 3;
  fclose(file);

  tvmbuild_tensor *inputs[8], *others[8];
  size_t other_count = info.input_count - 1;
  for (size_t i = 0; i < info.input_count; i++) {
    tvmbuild_tensor_info input = {.size = sizeof(input)};
    check(tvmbuild_package_input(package, i, &input));
    check(tvmbuild_tensor_create(input.name, input.dtype, input.shape, input.rank, &inputs[i]));
    if (i == 0) continue;
    check(tvmbuild_tensor_create(input.name, input.dtype, input.shape, input.rank, &others[i - 1]));
    tvmbuild_array array;
    int32_t on_host = 0;
    check(tvmbuild_tensor_view(others[i - 1], &array, &on_host));
    *(float *)array.data = (float)FACTOR;
  }
  check(tvmbuild_bind(session, inputs, info.input_count));
  check(tvmbuild_call(session));
  tvmbuild_tensor *outputs[8];
  tvmbuild_array want, got;
  int32_t on_host = 0;
  check(tvmbuild_outputs(session, outputs, info.output_count));
  check(tvmbuild_tensor_view(outputs[0], &want, &on_host));

  tvmbuild_frame_options options[3];
  const double low_score = -9, high_overlap = 1;
  for (int i = 0; i < 3; i++) {
    options[i] = (tvmbuild_frame_options){.size = sizeof(options[i]), .encoding = "rgb8", .inputs = others};
    options[i].input_count = other_count;
    options[i].width = atoi(words[i == 1 ? 5 : 4]);
  }
  if (info.result_count != 0) {
    tvmbuild_result_info result = {.size = sizeof(result)};
    check(tvmbuild_package_result(package, 0, &result));
    if (result.score != NULL) options[2].score = &low_score;
    if (result.overlap != NULL) options[2].overlap = &high_overlap;
  }
  tvmbuild_tensor *prepared = NULL;
  tvmbuild_array input;
  check(tvmbuild_prepare_frame(session, bytes, size, &options[0], &prepared));
  check(tvmbuild_tensor_view(prepared, &input, &on_host));
  char *path = malloc(strlen(words[2]) + 16);
  if (path == NULL || !on_host) return 3;
  sprintf(path, "%s.prepared", words[2]);
  file = fopen(path, "wb");
  if (file == NULL || fwrite(input.data, 1, count_bytes(&input), file) != count_bytes(&input)) return 3;
  if (fclose(file) != 0) return 3;
  check(tvmbuild_close(prepared));

  text first[3] = {{0}}, now = {0};
  long begun = 0, counted = 0;
  int different = 0, more = 0;
  for (int i = 0; i < atoi(words[3]); i++) {
    uint8_t *at = memory + i % 3;
    memcpy(at, bytes, size);
    size_t found[3];
    for (int which = 0; which < 3; which++) {
      tvmbuild_results results = {.size = sizeof(results)};
      allocated = 0;
      check(tvmbuild_run_frame(session, at, size, &options[which], &results));
      *(i < 3 ? &begun : &counted) += allocated;  // the first at another address needs memory too
      found[which] = results.box_count;
      describe(&now, &results);
      if (i == 0) describe(&first[which], &results);
      different += now.size != first[which].size || memcmp(now.bytes, first[which].bytes, now.size) != 0;
    }
    more += found[2] > found[0];
  }
  check(tvmbuild_call(session));  // the inputs that were bound before the frames
  tvmbuild_tensor *after[8];
  check(tvmbuild_outputs(session, after, info.output_count));
  check(tvmbuild_tensor_view(after[0], &got, &on_host));
  different += !on_host || memcmp(got.data, want.data, count_bytes(&want)) != 0;
  sprintf(path, "%s.results", words[2]);
  file = fopen(path, "wb");
  if (file == NULL || fwrite(first[0].bytes, 1, first[0].size, file) != first[0].size) return 3;
  if (fwrite(first[1].bytes, 1, first[1].size, file) != first[1].size || fclose(file) != 0) return 3;
  printf("different %d more %d allocated %ld, %d at first\n", different, more, counted, begun > 0);

  for (size_t i = 0; i < info.output_count; i++) {
    check(tvmbuild_close(outputs[i]));
    check(tvmbuild_close(after[i]));
  }
  for (size_t i = 0; i < info.input_count; i++) check(tvmbuild_close(inputs[i]));
  for (size_t i = 0; i < other_count; i++) check(tvmbuild_close(others[i]));
  check(tvmbuild_close(package));
  check(tvmbuild_close(session));
  for (int i = 0; i < 3; i++) free(first[i].bytes);
  free(now.bytes);
  free(path);
  free(bytes);
  free(memory);
  return 0;
}
