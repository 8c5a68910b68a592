#include "work_queue.h"

#include <stdio.h>

#include "device.h"
#include "failure.h"
#include "kernel.h"
#include "profile.h"

namespace tvmbuild {
namespace {

// Work is submitted in chunks, so that the device begins while the host goes on. The splits are always at the same
// places, or no recording would match.
constexpr uint32_t FIRST_CHUNK = 16, MAX_CHUNK = 512;

uint64_t bit(int queue) { return 1ull << queue; }

Place place_of(const Binding &binding) { return {binding.memory, binding.memory->id, binding.offset}; }

void mark(int queue, const Binding &binding) {
  (binding.is_written ? binding.memory->writers : binding.memory->readers) |= bit(queue);
  if (binding.is_written) binding.memory->is_stale = false;
}

bool count_operation(Device &device, int queue) {
  WorkQueue &mine = device.work_queues[queue];
  if (mine.chunk == 0) mine.chunk = FIRST_CHUNK;
  if (mine.operations.count() < mine.chunk) return true;
  if (mine.chunk < MAX_CHUNK) mine.chunk *= 2;
  return flush_queue(device, queue);
}

void forget_memory_uses(Memory *memory, int queue) {
  memory->readers &= ~bit(queue);
  memory->writers &= ~bit(queue);
}

// Mark the memory that discarded work should have written: its reader may not have heard of the failure.
void give_up_operations(Device &device, int queue) {
  snprintf(device.given_up, sizeof(device.given_up), "%s", failure());
  for (Memory *memory : device.memories) memory->is_stale |= (memory->writers & bit(queue)) != 0;
}

// Copies on streams go beside kernels. What a thread copies stays in its own order with its kernels: where one waits
// for the other anyhow, a change of the queue costs more than it gives.
Engine choose_engine(const Device &device, const WorkQueue &mine) {
  if (!mine.is_stream) return COMPUTE;
  bool is_up = device.queues[UPLOAD].handle != nullptr, is_down = device.queues[DOWNLOAD].handle != nullptr;
  for (Operation operation : mine.operations) {
    if (operation.is_launch()) return COMPUTE;
    const Copy copy = operation.copy();
    is_up &= !copy.from.memory->block->is_of_device;
    is_down &= !copy.to.memory->block->is_of_device;
  }
  return is_up ? UPLOAD : is_down ? DOWNLOAD : COMPUTE;
}

// If the device is lost, operations in a queue may mention freed objects, so none of them is looked at.
bool submit_operations(Device &device, int queue) {
  WorkQueue &mine = device.work_queues[queue];
  if (!check_alive(device)) return false;
  if (device.is_profiling) return run_profiled(device, mine.operations);
  Recording *recording = find_recording(device, mine.operations, choose_engine(device, mine));
  if (recording == nullptr || !submit_recording(device, *recording)) return false;
  mine.last.reach(recording->last);
  for (Memory *memory : recording->memories) forget_memory_uses(memory, queue);
  return true;
}

}  // namespace

bool check_fresh(const Device &device, const Binding &binding) {
  if (binding.is_written || !binding.memory->is_stale) return true;
  return fail("Vulkan: %s has not computed what is read here, because of an earlier failure: %s", device.info.name(),
              device.given_up);
}

bool flush_others(Device &device, int queue, const Binding &binding) {
  uint64_t others = binding.memory->writers | (binding.is_written ? binding.memory->readers : 0);
  others &= ~bit(queue);
  for (int other = 0; others != 0; other++, others >>= 1)
    if ((others & 1) && !flush_queue(device, other)) return false;
  return true;
}

bool add_launch(Device &device, int queue, Kernel *kernel, const uint32_t *groups, const uint64_t *scalars,
                const Binding *bindings) {
  for (uint32_t index = 0; index < kernel->buffers; index++)
    if (!check_fresh(device, bindings[index]) || !flush_others(device, queue, bindings[index])) return false;
  static_assert(MAX_BUFFERS <= UINT16_MAX && MAX_SCALARS <= UINT16_MAX, "a Launch counts them in 16 bits");
  Place places[MAX_BUFFERS];
  for (uint32_t index = 0; index < kernel->buffers; index++) {
    places[index] = place_of(bindings[index]);
    mark(queue, bindings[index]);
  }
  const Launch launch = {OperationKind::LAUNCH,
                         kernel,
                         kernel->on[device.index],
                         kernel->id,
                         {groups[0], groups[1], groups[2]},
                         static_cast<uint16_t>(kernel->buffers),
                         static_cast<uint16_t>(kernel->scalars)};
  device.work_queues[queue].operations.add(launch, places, scalars);
  return count_operation(device, queue);
}

bool add_copy(Device &device, int queue, Binding from, Binding to, size_t size) {
  if (!check_fresh(device, from) || !flush_others(device, queue, from) || !flush_others(device, queue, to))
    return false;
  device.work_queues[queue].operations.add({OperationKind::COPY, place_of(from), place_of(to), size});
  mark(queue, from);
  mark(queue, to);
  return count_operation(device, queue);
}

bool flush_queue(Device &device, int queue) {
  WorkQueue &mine = device.work_queues[queue];
  if (mine.operations.count() == 0) return true;
  bool is_done = submit_operations(device, queue);
  if (!is_done) give_up_operations(device, queue);
  if (!is_done || device.is_profiling)
    for (Memory *memory : device.memories) forget_memory_uses(memory, queue);
  mine.operations.clear();
  return is_done;
}

bool end_inference(Device &device, int queue) {
  if (!flush_queue(device, queue)) return false;
  device.work_queues[queue].chunk = FIRST_CHUNK;
  return true;
}

bool wait_for_queue(Device &device, int queue) {
  WorkQueue &mine = device.work_queues[queue];
  if (!end_inference(device, queue)) return false;
  bool is_shared = queue == MAX_WORK_QUEUES - 1 || mine.is_stream;  // another thread may use its staging memory
  WhileWaiting how = is_shared ? WhileWaiting::LOCKED : WhileWaiting::UNLOCKED;
  Progress last = mine.last;
  if (mine.deliveries.size() > 0) last.reach(mine.delivered_after);
  if (!wait_for(device, last, how)) return false;
  for (const Delivery &each : mine.deliveries) memcpy(each.to, each.from, each.size);
  mine.deliveries.clear();
  mine.staging_used = 0;
  return true;
}

bool wait_for_memory(Device &device, Memory *memory, bool is_written) {
  uint64_t queues = memory->writers | (is_written ? memory->readers : 0);
  bool is_done = true;  // every queue, even after a failure: the memory may be freed next
  for (int queue = 0; queues != 0; queue++, queues >>= 1)
    if (queues & 1) is_done &= flush_queue(device, queue);
  return wait_for(device, memory->uses) && is_done;
}

bool wait_for_all(Device &device) {
  bool is_done = check_alive(device);
  for (int queue = 0; queue < MAX_WORK_QUEUES; queue++) is_done &= flush_queue(device, queue);
  for (uint32_t engine = 0; engine < ENGINES; engine++)
    is_done &=
        wait_for(device, Submission{static_cast<Engine>(engine), device.queues[engine].last}, WhileWaiting::LOCKED);
  return is_done;
}

}  // namespace tvmbuild
