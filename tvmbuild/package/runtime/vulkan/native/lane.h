// Launches and copies that are not submitted yet, in order: a lane for each thread, and for each stream of TVM's.
//
// Lanes never hold work that depends on another lane's: before such a thing is added, the other lane is submitted.
// So they may be submitted in any order, and a thread's list is the same at each of its inferences, whatever others do.
#pragma once
#include "memory.h"

namespace tvmbuild {

struct Kernel;

constexpr int MOST_LANES = 64;  // a bit each in Memory

struct Lane {
  List<uint64_t> words;  // the operations, see recording.h
  uint32_t operations;
  uint32_t chunk;        // how many operations are submitted at once; grows until the next wait
  uint64_t last;         // its latest submission
  int users;             // threads and streams
  bool is_stream;
  Memory *staging;       // what goes between the CPU's memory and the card's
  size_t staging_used;
};

struct Binding {
  Memory *memory;
  uint64_t offset;
  bool is_written;
};

// This thread's lane, or its current stream's. The device's lock is held in all of these.
int current_lane(Device &device);
void set_current_stream(Device &device, Lane *stream);
Lane *current_stream(Device &device);
Lane *create_stream(Device &device);
void free_stream(Device &device, Lane *stream);

bool add_launch(Device &device, int lane, Kernel *kernel, const uint32_t *groups, const uint64_t *scalars,
                const Binding *bindings);
bool add_copy(Device &device, int lane, Binding from, Binding to, size_t size);

// False where what is to be read was given up.
bool check_fresh(const Device &device, const Binding &binding);

// Submit what a lane holds. Where that fails, it is given up.
bool flush_lane(Device &device, int lane);
// Submit, and wait for all that the lane ever submitted.
bool wait_for_lane(Device &device, int lane);
// Submit every lane's work on this memory, and wait for it.
bool wait_for_memory(Device &device, Memory *memory, bool is_written);
bool wait_for_all(Device &device);

}  // namespace tvmbuild
