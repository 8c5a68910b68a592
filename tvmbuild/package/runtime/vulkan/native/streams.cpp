// The assignment of queues: a thread's own, or that of the stream that it has set.
#include <stdlib.h>

#include "device.h"
#include "lock.h"

namespace tvmbuild {
namespace {

struct OfThread {
  int queue[MAX_DEVICES];  // plus one
  WorkQueue *stream[MAX_DEVICES];
};

pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_key_t key;
thread_local OfThread *mine;

int take_queue(Device &device) {
  int queue = 0;
  while (queue < MAX_WORK_QUEUES - 1 && device.work_queues[queue].users > 0)
    queue++;  // the last queue is shared if all are taken
  device.work_queues[queue].users++;
  return queue;
}

// A thread ends. Its launches run all the same.
void leave(void *place) {
  OfThread *thread = static_cast<OfThread *>(place);
  for (int index = 0; index < MAX_DEVICES; index++) {
    if (thread->queue[index] == 0) continue;
    Device *device = started_device(index);
    Lock lock(device->lock);
    flush_queue(*device, thread->queue[index] - 1);
    device->work_queues[thread->queue[index] - 1].users--;
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

int current_queue(Device &device) {
  OfThread &thread = this_thread();
  if (WorkQueue *stream = thread.stream[device.index]) return static_cast<int>(stream - device.work_queues);
  int &queue = thread.queue[device.index];
  if (queue == 0) queue = take_queue(device) + 1;
  return queue - 1;
}

void set_current_stream(Device &device, WorkQueue *stream) { this_thread().stream[device.index] = stream; }

WorkQueue *current_stream(Device &device) { return this_thread().stream[device.index]; }

WorkQueue *create_stream(Device &device) {
  WorkQueue *queue = &device.work_queues[take_queue(device)];
  queue->is_stream = true;
  return queue;
}

void free_stream(Device &device, WorkQueue *stream) {
  flush_queue(device, static_cast<int>(stream - device.work_queues));
  stream->deliveries.clear();
  if (--stream->users == 0) stream->is_stream = false;
  if (current_stream(device) == stream) set_current_stream(device, nullptr);
}

}  // namespace tvmbuild
