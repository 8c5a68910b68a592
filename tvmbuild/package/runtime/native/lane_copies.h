// The arguments of the functions that copy in a lane: a stream, and pairs of what is copied and where to.
#pragma once
#include <tvm/ffi/c_api.h>

#include "list.h"

namespace tvmbuild {

struct LaneCopy {
  char *from, *to;
  size_t size;
};

enum class LaneDirection { IN, OUT };

struct LaneCopies {
  void *stream;
  int device;  // the index of the card that has the inputs, or the outputs
  List<LaneCopy> copies;
};

// Read (stream, from, to, …): tensors, or the host's address in the place of a tensor that outputs are copied to. False
// with the failure set.
bool read_lane_copies(const TVMFFIAny *arguments, int32_t count, LaneDirection direction, LaneCopies &all);

size_t count_bytes(const DLTensor &tensor);

}  // namespace tvmbuild
