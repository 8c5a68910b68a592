// frames_async PACKAGE BYTES: frames in the background, beside those of tvmbuild_run_frame. BYTES is the size of a
// frame of the package, which finds boxes. It prints a line for each fact.
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmbuild.h>

#include "checked.h"

enum { FRAMES = 4, CALLS = 40 };

// The boxes of a frame as they should be, and what came back.
typedef struct {
  tvmbuild_box want[8];
  size_t count;
  atomic_int *same, *failed, *cancelled;
} expected;

static void compare(void *context, tvmbuild_status status, const tvmbuild_results *results) {
  expected *to = context;
  if (status == TVMBUILD_CANCELLED) {
    *to->cancelled += results == NULL;
  } else if (status != TVMBUILD_OK) {
    *to->failed += results == NULL && strlen(tvmbuild_last_error()) > 12;
  } else {
    size_t same = results->size == sizeof(*results) && results->box_count == to->count;
    for (size_t i = 0; same && i < to->count && i < 8; i++)
      same = results->boxes[i].x == to->want[i].x && results->boxes[i].score == to->want[i].score &&
             results->boxes[i].index == to->want[i].index;
    *to->same += (int)same;
  }
}

int main(int words, char **word) {
  if (words != 3) return 2;
  size_t size = strtoul(word[2], NULL, 10);
  tvmbuild_session *session = load(word[1]);
  atomic_int same = 0, failed = 0, cancelled = 0;
  const tvmbuild_frame_options plain = {.size = sizeof(plain), .encoding = "rgb8"};
  uint8_t *bytes[FRAMES];
  expected all[FRAMES];
  size_t boxes = 0;
  for (int i = 0; i < FRAMES; i++) {
    tvmbuild_results results = {.size = sizeof(results)};
    bytes[i] = malloc(size);
    if (bytes[i] == NULL) return 3;
    for (size_t at = 0; at < size; at++) bytes[i][at] = (uint8_t)(at * (size_t)(3 + i) / 5 + at / 97);
    check(tvmbuild_run_frame(session, bytes[i], size, &plain, &results));
    all[i] = (expected){.count = results.box_count, .same = &same, .failed = &failed, .cancelled = &cancelled};
    for (size_t box = 0; box < results.box_count && box < 8; box++) all[i].want[box] = results.boxes[box];
    boxes += results.box_count;
  }
  for (int i = 0; i < CALLS; i++)
    check(tvmbuild_run_frame_async(session, bytes[i % FRAMES], size, &plain, compare, &all[i % FRAMES]));
  check(tvmbuild_wait_async(session));
  printf("boxes: %d, the same: %d\n", boxes > 0, same);

  check(tvmbuild_run_frame_async(session, bytes[0], 1, &plain, compare, &all[0]));
  check(tvmbuild_wait_async(session));
  printf("a wrong frame: %d failed\n", failed);

  same = 0;
  tvmbuild_frame_options newest = {.size = sizeof(newest), .encoding = "rgb8", .newest = 1};
  for (int i = 0; i < CALLS; i++)
    check(tvmbuild_run_frame_async(session, bytes[i % FRAMES], size, &newest, compare, &all[i % FRAMES]));
  check(tvmbuild_wait_async(session));
  printf("the newest: %d, at least one the same: %d\n", same + cancelled, same > 0);

  const double high = 1e6;  // no box has such a score
  tvmbuild_frame_options old = {.size = offsetof(tvmbuild_frame_options, newest), .encoding = "rgb8", .score = &high};
  all[1].count = 0;
  same = 0;
  check(tvmbuild_run_frame_async(session, bytes[1], size, &old, compare, &all[1]));
  check(tvmbuild_wait_async(session));
  printf("options of an older program: %d\n", same);

  int refused = tvmbuild_run_frame_async(session, NULL, size, &plain, compare, NULL) == TVMBUILD_ARGUMENT;
  refused += tvmbuild_run_frame_async(session, bytes[0], size, &plain, NULL, NULL) == TVMBUILD_ARGUMENT;
  refused += tvmbuild_run_frame_async(NULL, bytes[0], size, &plain, compare, NULL) == TVMBUILD_ARGUMENT;
  printf("misuse: %d refused\n", refused);
  for (int i = 0; i < FRAMES; i++) free(bytes[i]);
  check(tvmbuild_close(session));
  return 0;
}
