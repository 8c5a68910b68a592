// parts PACKAGE: closes the handle of one size's session while it calls in the background, and opens it again. PACKAGE
// is that of sized_nets.py, with the inputs `ids` and `mask`, and has the size B=1, T=8. It prints a line for each
// fact.
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <threads.h>
#include <tvmbuild.h>

#include "checked.h"

typedef struct {
  atomic_int begun, done, cancelled;
  int closes;
  tvmbuild_session *part;
} counts;

// A callback that takes longer than the calls around it.
static void count(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t output_count) {
  counts *to = context;
  const struct timespec pause = {0, 200 * 1000 * 1000};
  (void)outputs, (void)output_count;
  if (status == TVMBUILD_CANCELLED) {
    to->cancelled++;
    return;
  }
  check(status);
  to->begun++;
  if (to->closes) check(tvmbuild_close(to->part));
  thrd_sleep(&pause, NULL);
  to->done++;
}

static void open_part(tvmbuild_session *session, tvmbuild_session **part) {
  const char *letters[] = {"B", "T"};
  const int64_t values[] = {1, 8};
  const tvmbuild_size_info size = {sizeof(size), letters, values, 2};
  check(tvmbuild_at(session, &size, part));
}

static void await(const atomic_int *flag) {
  const struct timespec pause = {0, 1000 * 1000};
  while (*flag == 0) thrd_sleep(&pause, NULL);
}

int main(int words, char **word) {
  if (words != 2) return 2;
  tvmbuild_session *session = load(word[1]);
  tvmbuild_package *package = NULL;
  tvmbuild_tensor *inputs[2] = {NULL, NULL};
  check(tvmbuild_describe(session, &package));
  for (size_t i = 0; i < 2; i++) {
    const int64_t shape[] = {1, 8};
    tvmbuild_tensor_info info = {.size = sizeof(info)};
    tvmbuild_array array = {0};
    check(tvmbuild_package_input(package, i, &info));
    check(tvmbuild_tensor_create(info.name, info.dtype, shape, 2, &inputs[i]));
    check(tvmbuild_tensor_view(inputs[i], &array, &(int32_t){0}));
    for (int at = 0; at < 8; at++) ((int64_t *)array.data)[at] = 1;
  }
  check(tvmbuild_close(package));

  counts one = {0}, two = {0}, three = {.closes = 1};
  open_part(session, &one.part);
  check(tvmbuild_call_async(one.part, inputs, 2, 0, count, &one));
  await(&one.begun);
  check(tvmbuild_call_async(one.part, inputs, 2, 0, count, &one));
  check(tvmbuild_close(one.part));
  printf("after the end: %d done, %d cancelled\n", one.done, one.cancelled);

  open_part(session, &two.part);
  for (int i = 0; i < 3; i++) check(tvmbuild_call_async(two.part, inputs, 2, 0, count, &two));
  check(tvmbuild_wait_async(two.part));
  printf("opened again: %d done, %d cancelled\n", two.done, two.cancelled);
  check(tvmbuild_close(two.part));

  open_part(session, &three.part);
  check(tvmbuild_call_async(three.part, inputs, 2, 0, count, &three));
  await(&three.done);
  open_part(session, &two.part);
  check(tvmbuild_call_async(two.part, inputs, 2, 0, count, &two));
  check(tvmbuild_wait_async(two.part));
  printf("closed in a callback: %d done, then %d\n", three.done, two.done);
  check(tvmbuild_close(two.part));
  check(tvmbuild_close(session));
  for (int i = 0; i < 2; i++) check(tvmbuild_close(inputs[i]));
  return 0;
}
