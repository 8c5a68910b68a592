// Which lane is whose: a thread's own, or that of the stream that it has set.
#include <stdlib.h>

#include "device.h"
#include "lock.h"

namespace tvmbuild {
namespace {

struct OfThread {
  int lane[MOST_DEVICES];  // plus one
  Lane *stream[MOST_DEVICES];
};

pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_key_t key;
thread_local OfThread *mine;

int take_lane(Device &device) {
  int lane = 0;
  while (lane < MOST_LANES - 1 && device.lanes[lane].users > 0) lane++;  // the last one is shared where all are taken
  device.lanes[lane].users++;
  return lane;
}

// A thread ends: what it launched runs all the same.
void leave(void *place) {
  OfThread *thread = static_cast<OfThread *>(place);
  for (int index = 0; index < MOST_DEVICES; index++) {
    if (thread->lane[index] == 0) continue;
    Device *device = started_device(index);
    Lock lock(device->lock);
    flush_lane(*device, thread->lane[index] - 1);
    device->lanes[thread->lane[index] - 1].users--;
  }
  free(thread);
}

OfThread &this_thread() {
  if (mine != nullptr) return *mine;
  pthread_once(&once, [] { pthread_key_create(&key, leave); });
  mine = static_cast<OfThread *>(calloc(1, sizeof(OfThread)));
  if (mine == nullptr) abort();
  pthread_setspecific(key, mine);
  return *mine;
}

}  // namespace

int current_lane(Device &device) {
  OfThread &thread = this_thread();
  if (Lane *stream = thread.stream[device.index]) return static_cast<int>(stream - device.lanes);
  int &lane = thread.lane[device.index];
  if (lane == 0) lane = take_lane(device) + 1;
  return lane - 1;
}

void set_current_stream(Device &device, Lane *stream) { this_thread().stream[device.index] = stream; }

Lane *current_stream(Device &device) { return this_thread().stream[device.index]; }

Lane *create_stream(Device &device) {
  Lane *lane = &device.lanes[take_lane(device)];
  lane->is_stream = true;
  return lane;
}

void free_stream(Device &device, Lane *stream) {
  flush_lane(device, static_cast<int>(stream - device.lanes));
  if (--stream->users == 0) stream->is_stream = false;
  if (current_stream(device) == stream) set_current_stream(device, nullptr);
}

}  // namespace tvmbuild
