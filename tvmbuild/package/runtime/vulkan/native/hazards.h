// Where a barrier is needed: before an operation that touches what one since the last barrier wrote, or writes what one
// read. Kernels that do not depend on each other then run side by side.
#pragma once
#include "memory.h"

namespace tvmbuild {

class Hazards {
 public:
  // From `offset` to `end` of an allocation.
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
  static constexpr size_t MAX_RANGES = 512;  // looking through more costs more than a barrier
  struct Range {
    const Memory *memory;
    uint64_t offset, end;
    bool is_written;
  };
  List<Range> ranges_;
};

}  // namespace tvmbuild
