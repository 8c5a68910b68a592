// async PACKAGE: calls in the background. PACKAGE has one input of float32. It prints a line for each fact.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmbuild.h>

#include "checked.h"

enum { ELEMENTS = 28 * 28, MOST = 10 };

// Holds callbacks back until they may go on.
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int arrived, open;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void wait_for(const int *flag) {
  while (!*flag) pthread_cond_wait(&gate.changed, &gate.mutex);
}

static void set(int *flag, int value) {
  pthread_mutex_lock(&gate.mutex);
  *flag = value;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
}

static void await_arrival(void) {
  pthread_mutex_lock(&gate.mutex);
  wait_for(&gate.arrived);
  pthread_mutex_unlock(&gate.mutex);
}

static void hold(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t count) {
  (void)context, (void)outputs;
  if (status != TVMBUILD_OK || count != 1) exit(2);
  pthread_mutex_lock(&gate.mutex);
  gate.arrived = 1;
  pthread_cond_broadcast(&gate.changed);
  wait_for(&gate.open);
  pthread_mutex_unlock(&gate.mutex);
}

// What came back of the calls.
typedef struct {
  float want[MOST];
  atomic_int done, different, cancelled, failed, closed;
  tvmbuild_tensor *kept;
  tvmbuild_session *session;
} counts;

static const float *numbers_of(tvmbuild_tensor *tensor) {
  tvmbuild_array array = {0};
  int32_t on_host = 0;
  check(tvmbuild_tensor_view(tensor, &array, &on_host));
  if (!on_host || array.rank != 2 || array.shape[1] != MOST) exit(3);
  return array.data;
}

static void count(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t output_count) {
  counts *to = context;
  if (status == TVMBUILD_CANCELLED) {
    to->cancelled += strstr(tvmbuild_last_error(), "was cancelled") != NULL;
  } else if (status != TVMBUILD_OK) {
    to->failed += strlen(tvmbuild_last_error()) > 12 && output_count == 0;
  } else {
    if (output_count != 1) exit(4);
    to->done++;
    to->different += memcmp(numbers_of(outputs[0]), to->want, sizeof(to->want)) != 0;
  }
}

static void keep(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t output_count) {
  counts *to = context;
  count(context, status, outputs, output_count);
  if (status == TVMBUILD_OK) check(tvmbuild_tensor_to_host(outputs[0], &to->kept));
}

static void end_session(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t output_count) {
  counts *to = context;
  check(tvmbuild_close(to->session));
  to->closed += tvmbuild_wait_async(to->session) == TVMBUILD_ARGUMENT;
  count(context, status, outputs, output_count);
  set(&gate.arrived, 1);
}

static tvmbuild_tensor *make_input(float value) {
  const int64_t shape[] = {1, 1, 28, 28};
  tvmbuild_tensor *tensor = NULL;
  tvmbuild_array array = {0};
  check(tvmbuild_tensor_create("x", "float32", shape, 4, &tensor));
  check(tvmbuild_tensor_view(tensor, &array, &(int32_t){0}));
  for (int i = 0; i < ELEMENTS; i++) ((float *)array.data)[i] = value;
  return tensor;
}

static void compute(tvmbuild_session *session, tvmbuild_tensor *input, float *to) {
  tvmbuild_tensor *output = NULL;
  check(tvmbuild_bind(session, &input, 1));
  check(tvmbuild_call(session));
  check(tvmbuild_outputs(session, &output, 1));
  memcpy(to, numbers_of(output), MOST * sizeof(float));
  check(tvmbuild_close(output));
}

static void call_in_callback(void *context, tvmbuild_status status, tvmbuild_tensor *const *outputs, size_t n) {
  counts *to = context;
  (void)outputs, (void)n;
  if (status != TVMBUILD_OK) exit(5);
  tvmbuild_tensor *input = make_input(0.5F);
  check(tvmbuild_call(to->session));  // another thread waits for room in the meantime
  check(tvmbuild_call_async(to->session, &input, 1, 1, count, to));
  if (tvmbuild_wait_async(to->session) == TVMBUILD_CALL) to->closed++;
  check(tvmbuild_close(input));
}

int main(int words, char **word) {
  if (words != 2) return 2;
  tvmbuild_session *session = load(word[1]);
  tvmbuild_tensor *input = make_input(0.5F), *wrong = NULL;
  counts all = {.session = session};
  compute(session, input, all.want);
  for (int i = 0; i < 200; i++) {
    float meanwhile[MOST];
    check(tvmbuild_call_async(session, &input, 1, 0, i == 7 ? keep : count, &all));
    compute(session, input, meanwhile);  // other calls of the session do not disturb them
    all.different += memcmp(meanwhile, all.want, sizeof(all.want)) != 0;
  }
  check(tvmbuild_wait_async(session));
  printf("in order: %d done, %d different\n", all.done, all.different);
  printf("kept: %d\n", memcmp(numbers_of(all.kept), all.want, sizeof(all.want)) == 0);
  check(tvmbuild_close(all.kept));

  counts newest = {.session = session};
  memcpy(newest.want, all.want, sizeof(all.want));
  check(tvmbuild_call_async(session, &input, 1, 0, hold, NULL));
  await_arrival();
  for (int i = 0; i < 50; i++) {
    tvmbuild_tensor *mine = make_input(0.5F);
    check(tvmbuild_call_async(session, &mine, 1, 1, count, &newest));
    check(tvmbuild_close(mine));
  }
  int before = newest.cancelled;
  set(&gate.open, 1);
  check(tvmbuild_wait_async(session));
  printf("newest: %d cancelled at once, %d done, %d different\n", before, newest.done, newest.different);

  const int64_t shape[] = {1, 3};
  check(tvmbuild_tensor_create("x", "float32", shape, 2, &wrong));
  check(tvmbuild_call_async(session, &wrong, 1, 0, count, &newest));
  check(tvmbuild_wait_async(session));
  printf("wrong inputs: %d failed\n", newest.failed);

  counts nested = {.session = session};
  memcpy(nested.want, all.want, sizeof(all.want));
  check(tvmbuild_call_async(session, &input, 1, 0, call_in_callback, &nested));
  for (int i = 0; i < 3; i++) check(tvmbuild_call_async(session, &input, 1, 0, count, &nested));
  check(tvmbuild_wait_async(session));
  printf("in a callback: %d refused, %d calls, %d different\n", nested.closed, nested.done + nested.cancelled,
         nested.different);

  counts ended = {.session = load(word[1])};
  memcpy(ended.want, all.want, sizeof(all.want));
  set(&gate.arrived, 0);
  check(tvmbuild_call_async(ended.session, &input, 1, 0, end_session, &ended));
  tvmbuild_status late = tvmbuild_call_async(ended.session, &input, 1, 0, count, &ended);
  await_arrival();
  int calls = late == TVMBUILD_OK ? 2 : 1;
  printf("closed in a callback: %d refused, %d missing, %d different\n", ended.closed,
         calls - ended.done - ended.cancelled, ended.different);
  check(tvmbuild_close(wrong));
  check(tvmbuild_close(input));
  check(tvmbuild_close(session));
  return 0;
}
