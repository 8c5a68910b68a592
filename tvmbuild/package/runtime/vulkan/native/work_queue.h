// Launches and copies that are not submitted yet, in order: a queue for each thread, and for each stream of TVM's.
//
// Queues never hold work that depends on another queue's: before a dependent operation is added, the other queue is
// submitted. Queues can therefore be submitted in any order, and a thread's list is the same at each of its inferences.
#pragma once
#include "memory.h"
#include "operations.h"

namespace tvmbuild {

constexpr int MAX_WORK_QUEUES = 64;  // a bit each in Memory

// Bytes of mapped memory that go to the host's memory when the device has written them.
struct Delivery {
  const char *from;
  void *to;
  size_t size;
};

struct WorkQueue {
  Operations operations;
  uint32_t chunk;  // the number of operations in one submission; grows until the next wait
  Progress last;   // its latest submissions
  int users;       // threads and streams
  bool is_stream;
  Memory *staging;  // memory for copies between the CPU's memory and the card's
  size_t staging_used;
  List<Delivery> deliveries;  // of copies to the host that were begun
  Progress delivered_after;   // the submissions that write them
};

struct Binding {
  Memory *memory;
  uint64_t offset;
  bool is_written;
};

// This thread's queue, or its current stream's. The device's lock is held in all of these.
int current_queue(Device &device);
void set_current_stream(Device &device, WorkQueue *stream);
WorkQueue *current_stream(Device &device);
WorkQueue *create_stream(Device &device);
void free_stream(Device &device, WorkQueue *stream);

bool add_launch(Device &device, int queue, Kernel *kernel, const uint32_t *groups, const uint64_t *scalars,
                const Binding *bindings);
bool add_copy(Device &device, int queue, Binding from, Binding to, size_t size);

// False if the work that should have written the memory was discarded.
bool check_fresh(const Device &device, const Binding &binding);

// Submit a queue's operations. If that fails, they are discarded.
bool flush_queue(Device &device, int queue);
// The same at the end of an inference, so that the next one is submitted in the same chunks.
bool end_inference(Device &device, int queue);
// Submit the work of other queues that must come before this use of a memory.
bool flush_others(Device &device, int queue, const Binding &binding);
// Submit, and wait for all submissions of the queue.
bool wait_for_queue(Device &device, int queue);
// Submit every queue's work on this memory, and wait for it.
bool wait_for_memory(Device &device, Memory *memory, bool is_written);
bool wait_for_all(Device &device);

}  // namespace tvmbuild
