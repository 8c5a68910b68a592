#include "lane.h"

#include "device.h"
#include "failure.h"
#include "kernel.h"
#include "profile.h"

namespace tvmbuild {
namespace {

// The device begins while the host goes on. Always at the same places, or a list would not be found again.
constexpr uint32_t FIRST_CHUNK = 16, LARGEST_CHUNK = 512;

uint64_t bit(int lane) { return 1ull << lane; }

void mark(int lane, const Binding &binding) {
  (binding.is_written ? binding.memory->writers : binding.memory->readers) |= bit(lane);
}

// What other lanes hold and this must come after.
bool flush_others(Device &device, int lane, const Binding &binding) {
  uint64_t others = binding.memory->writers | (binding.is_written ? binding.memory->readers : 0);
  others &= ~bit(lane);
  for (int other = 0; others != 0; other++, others >>= 1)
    if ((others & 1) && !flush_lane(device, other)) return false;
  return true;
}

bool count_operation(Device &device, int lane) {
  Lane &mine = device.lanes[lane];
  if (mine.chunk == 0) mine.chunk = FIRST_CHUNK;
  if (++mine.operations < mine.chunk) return true;
  if (mine.chunk < LARGEST_CHUNK) mine.chunk *= 2;
  return flush_lane(device, lane);
}

void forget_operations(Device &device, int lane) {
  Lane &mine = device.lanes[lane];
  for (Memory *memory : device.memories) memory->readers &= ~bit(lane), memory->writers &= ~bit(lane);
  mine.words.clear();
  mine.operations = 0;
}

}  // namespace

bool add_launch(Device &device, int lane, Kernel *kernel, const uint32_t *groups, const uint64_t *scalars,
                const Binding *bindings) {
  for (uint32_t index = 0; index < kernel->buffers; index++)
    if (!flush_others(device, lane, bindings[index])) return false;
  size_t size = LAUNCH_WORDS + BINDING_WORDS * kernel->buffers + kernel->scalars;
  uint64_t *words = device.lanes[lane].words.grow(size);
  *words++ = LAUNCH;
  *words++ = reinterpret_cast<uint64_t>(kernel);
  *words++ = reinterpret_cast<uint64_t>(kernel->on[device.index]);
  *words++ = kernel->id;
  *words++ = groups[0] | static_cast<uint64_t>(groups[1]) << 32;
  *words++ = groups[2];
  for (uint32_t index = 0; index < kernel->buffers; index++) {
    *words++ = reinterpret_cast<uint64_t>(bindings[index].memory);
    *words++ = bindings[index].memory->id;
    *words++ = bindings[index].offset;
    mark(lane, bindings[index]);
  }
  for (uint32_t index = 0; index < kernel->scalars; index++) *words++ = scalars[index];
  return count_operation(device, lane);
}

bool add_copy(Device &device, int lane, Binding from, Binding to, size_t size) {
  if (!flush_others(device, lane, from) || !flush_others(device, lane, to)) return false;
  uint64_t *words = device.lanes[lane].words.grow(COPY_WORDS);
  *words++ = COPY;
  const Binding both[] = {from, to};
  for (const Binding &each : both) {
    *words++ = reinterpret_cast<uint64_t>(each.memory);
    *words++ = each.memory->id;
    *words++ = each.offset;
    mark(lane, each);
  }
  *words++ = size;
  return count_operation(device, lane);
}

bool flush_lane(Device &device, int lane) {
  Lane &mine = device.lanes[lane];
  if (mine.words.size() == 0) return true;
  if (device.is_profiling) {
    bool is_done = run_profiled(device, mine.words, mine.operations, mine.last);
    forget_operations(device, lane);
    return is_done;
  }
  Recording *recording = find_recording(device, mine.words);
  if (recording == nullptr || !submit(device, recording->commands, recording->last)) {
    forget_operations(device, lane);
    return false;
  }
  mine.last = recording->last;
  for (Memory *memory : recording->memories) {
    memory->readers &= ~bit(lane);
    memory->writers &= ~bit(lane);
    memory->last_use = recording->last;
  }
  mine.words.clear();
  mine.operations = 0;
  return true;
}

bool wait_for_lane(Device &device, int lane) {
  Lane &mine = device.lanes[lane];
  if (!flush_lane(device, lane)) return false;
  mine.chunk = FIRST_CHUNK;
  bool is_shared = lane == MOST_LANES - 1 || mine.is_stream;  // another thread may use its staging memory
  if (!wait_for(device, mine.last, is_shared ? WhileWaiting::LOCKED : WhileWaiting::UNLOCKED)) return false;
  mine.staging_used = 0;
  return true;
}

bool wait_for_memory(Device &device, Memory *memory, bool is_written) {
  uint64_t lanes = memory->writers | (is_written ? memory->readers : 0);
  for (int lane = 0; lanes != 0; lane++, lanes >>= 1) {
    if (!(lanes & 1)) continue;
    if (!flush_lane(device, lane)) return false;
  }
  return wait_for(device, memory->last_use);
}

bool wait_for_all(Device &device) {
  for (int lane = 0; lane < MOST_LANES; lane++)
    if (!flush_lane(device, lane)) return false;
  return wait_for(device, device.submissions.last, WhileWaiting::LOCKED);
}

}  // namespace tvmbuild
