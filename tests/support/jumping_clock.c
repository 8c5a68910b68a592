// A clock of the day that jumps a day forward or back at each look, for LD_PRELOAD. The monotonic clock stays.
// A wait until a time of this clock ends at once, or in a day: such a program hangs or gives up.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { DAY = 86400 };

static time_t jump(void) {
  static atomic_uint looks;
  return atomic_fetch_add(&looks, 1) % 2 ? DAY : -DAY;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec time;
  if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *to) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (to != NULL) *to = now.tv_sec;
  return now.tv_sec;
}
