// Which recordings are kept, and how one is found again.
#include "device.h"
#include "kernel.h"

namespace tvmbuild {
namespace {

constexpr size_t MAX_RECORDINGS = 32;
constexpr int MAX_COPIES_IN_FLIGHT = 2;  // one runs while the other is submitted

uint64_t hash_words(const List<uint64_t> &words) {
  uint64_t hash = words.size();
  for (uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

bool is_equal(const Recording &recording, uint64_t hash, const List<uint64_t> &words) {
  return recording.hash == hash && recording.words.size() == words.size() &&
         memcmp(recording.words.data(), words.data(), words.size() * sizeof(uint64_t)) == 0;
}

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

Recording *find_recording(Device &device, const List<uint64_t> &words) {
  Recordings &all = device.recordings;
  uint64_t hash = hash_words(words);
  Recording *busy = nullptr;
  int copies = 0;
  for (Recording *each : all.kept) {
    if (!is_equal(*each, hash, words)) continue;
    each->used = ++all.clock;
    if (each->last <= device.submissions.completed) return each;
    if (busy == nullptr || each->last < busy->last) busy = each;
    copies++;
  }
  if (copies >= MAX_COPIES_IN_FLIGHT) return wait_for(device, busy->last, WhileWaiting::LOCKED) ? busy : nullptr;
  if (!make_room(device)) return nullptr;
  Recording *recording = record(device, words, 0);
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
    const uint64_t *end = recording.words.end();
    for (const uint64_t *words = recording.words.begin(); words != end; words += operation_size(words))
      if (*words == LAUNCH && reinterpret_cast<const Kernel *>(words[1]) == kernel) return true;
    return false;
  });
}

}  // namespace tvmbuild
