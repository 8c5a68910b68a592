// The choice of recordings to keep, and the search for one.
#include "device.h"

namespace tvmbuild {
namespace {

constexpr size_t MAX_RECORDINGS = 32;
constexpr int MAX_COPIES_IN_FLIGHT = 2;  // one runs while the other is submitted

bool make_room(Device &device) {
  List<Recording *> &kept = device.recordings.kept;
  if (kept.size() < MAX_RECORDINGS) return true;
  size_t oldest = 0;
  for (size_t index = 1; index < kept.size(); index++)
    if (kept[index]->used < kept[oldest]->used) oldest = index;
  if (!wait_for(device, kept[oldest]->last, WhileWaiting::LOCKED)) return false;
  destroy_recording(device, kept[oldest]);
  kept.remove(oldest);
  return true;
}

template <class Mentions>
void forget(Device &device, Mentions mentions) {
  List<Recording *> &kept = device.recordings.kept;
  size_t left = 0;
  for (Recording *recording : kept) {
    if (!mentions(*recording)) {
      kept[left++] = recording;
    } else {
      wait_for(device, recording->last, WhileWaiting::LOCKED);
      destroy_recording(device, recording);
    }
  }
  kept.shrink(left);
}

}  // namespace

Recording *find_recording(Device &device, const Operations &operations, Engine engine) {
  Recordings &all = device.recordings;
  uint64_t hash = operations.hash();
  Recording *busy = nullptr;
  int copies = 0;
  for (Recording *each : all.kept) {
    if (each->hash != hash || each->last.engine != engine || !(each->operations == operations)) continue;
    each->used = ++all.clock;
    if (is_done(device, each->last)) return each;
    if (busy == nullptr || each->last.number < busy->last.number) busy = each;
    copies++;
  }
  if (copies >= MAX_COPIES_IN_FLIGHT) return wait_for(device, busy->last, WhileWaiting::LOCKED) ? busy : nullptr;
  if (!make_room(device)) return nullptr;
  Recording *recording = record(device, operations, engine, 0);
  if (recording == nullptr) return nullptr;
  recording->hash = hash;
  recording->used = ++all.clock;
  all.kept.add(recording);
  return recording;
}

void forget_memory(Device &device, const Memory *memory) {
  forget(device, [memory](const Recording &recording) {
    for (const Memory *each : recording.memories)
      if (each == memory) return true;
    return false;
  });
}

void forget_kernel(Device &device, const Kernel *kernel) {
  forget(device, [kernel](const Recording &recording) {
    for (Operation operation : recording.operations)
      if (operation.is_launch() && operation.launch().kernel == kernel) return true;
    return false;
  });
}

}  // namespace tvmbuild
