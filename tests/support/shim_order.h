// Which work on the streams of a shim's card comes before which: streams run at the same time unless an event, a
// semaphore or a wait of the host orders them. Two pieces of work that use the same memory without an order are a
// mistake, as on a card, whichever of them a run happens to do first. https://en.wikipedia.org/wiki/Vector_clock
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace shim {

constexpr int STREAMS = 64, POINTERS = 32, USES = 1 << 16;

// For each stream, the number of its last piece of work that comes before.
struct Clock {
  int last[STREAMS];
  void join(const Clock &other) {
    for (int stream = 0; stream < STREAMS; stream++)
      if (other.last[stream] > last[stream]) last[stream] = other.last[stream];
  }
};

struct Use {
  uint64_t first, end;
  int stream, number;
  bool is_write;
  char what[64];
};

// The caller holds the shim's lock. Stream 0 is the default one.
class Order {
 public:
  int add_stream() {
    for (int stream = 1; stream < STREAMS; stream++)
      if (!is_used_[stream]) return is_used_[stream] = true, stream;
    abort();
  }
  void remove_stream(int stream) { is_used_[stream] = false; }

  void begin(int stream) {
    streams_[stream].join(host_);  // the host has called after all that it has waited for
    streams_[stream].last[stream] = ++numbers_[stream];
  }
  const Clock &of(int stream) const { return streams_[stream]; }
  void wait(int stream, const Clock &event) { streams_[stream].join(event); }
  void host_waits(const Clock &clock) {
    host_.join(clock);
    int kept = 0;
    for (int index = 0; index < uses_; index++)
      if (!host_has_seen(use_[index])) use_[kept++] = use_[index];
    uses_ = kept;
  }
  void host_waits_for_all() {
    for (const Clock &stream : streams_) host_waits(stream);
  }

  // The work on a stream that has begun last uses memory. Returns the earlier use that comes neither before nor after.
  const Use *add(int stream, uint64_t first, uint64_t size, bool is_write, const char *what) {
    const Use *found = nullptr;
    for (int index = 0; index < uses_ && found == nullptr; index++) {
      const Use &each = use_[index];
      bool conflicts = (each.is_write || is_write) && first < each.end && each.first < first + size;
      if (conflicts && streams_[stream].last[each.stream] < each.number) found = &each;
    }
    if (uses_ == USES) abort();
    Use &added = use_[uses_++];
    added = {first, first + size, stream, numbers_[stream], is_write, {}};
    strncpy(added.what, what, sizeof(added.what) - 1);
    return found;
  }
  // The work that may still use memory which the host releases now.
  const Use *find_user(uint64_t first, uint64_t size) const {
    for (int index = 0; index < uses_; index++)
      if (first < use_[index].end && use_[index].first < first + size && !host_has_seen(use_[index]))
        return &use_[index];
    return nullptr;
  }

 private:
  bool host_has_seen(const Use &use) const { return host_.last[use.stream] >= use.number; }

  Clock host_, streams_[STREAMS];
  int numbers_[STREAMS], uses_;
  bool is_used_[STREAMS];
  Use use_[USES];
};

}  // namespace shim
