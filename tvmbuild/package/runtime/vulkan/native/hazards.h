// The need of a barrier: before an operation that touches memory that was written since the last barrier, or writes
// memory that was read since. Kernels that do not depend on each other then run side by side.
#pragma once
#include "memory.h"

namespace tvmbuild {

class Hazards {
 public:
  // The range from `offset` to `end` of an allocation.
  bool conflicts(const Memory *memory, uint64_t offset, uint64_t end, bool is_written) const {
    if (ranges_.size() > MAX_RANGES) return true;
    for (const Range &each : ranges_)
      if (each.memory == memory && each.offset < end && offset < each.end && (is_written || each.is_written))
        return true;
    return false;
  }
  void add(const Memory *memory, uint64_t offset, uint64_t end, bool is_written) {
    ranges_.add({memory, offset, end, is_written});
  }
  void clear() { ranges_.clear(); }

 private:
  static constexpr size_t MAX_RANGES = 512;  // a longer search costs more than a barrier
  struct Range {
    const Memory *memory;
    uint64_t offset, end;
    bool is_written;
  };
  List<Range> ranges_;
};

}  // namespace tvmbuild
