// Launches and copies that are not submitted yet, in order: a queue for each thread, and for each stream of TVM's.
//
// Queues never hold work that depends on another queue's: before such a thing is added, the other queue is submitted.
// So they may be submitted in any order, and a thread's list is the same at each of its inferences, whatever others do.
#pragma once
#include "memory.h"
#include "operations.h"

namespace tvmbuild {

constexpr int MAX_WORK_QUEUES = 64;  // a bit each in Memory

struct WorkQueue {
  Operations operations;
  uint32_t chunk;  // how many operations are submitted at once; grows until the next wait
  uint64_t last;   // its latest submission
  int users;       // threads and streams
  bool is_stream;
  Memory *staging;  // what goes between the CPU's memory and the card's
  size_t staging_used;
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

// False where what is to be read was given up.
bool check_fresh(const Device &device, const Binding &binding);

// Submit what a queue holds. Where that fails, it is given up.
bool flush_queue(Device &device, int queue);
// Submit, and wait for all that the queue ever submitted.
bool wait_for_queue(Device &device, int queue);
// Submit every queue's work on this memory, and wait for it.
bool wait_for_memory(Device &device, Memory *memory, bool is_written);
bool wait_for_all(Device &device);

}  // namespace tvmbuild
