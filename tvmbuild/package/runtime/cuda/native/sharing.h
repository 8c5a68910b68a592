// Memory that the CPU and an integrated card use without copies: inputs and outputs. Weights and what lies between the
// kernels are the card's own, because the card does not cache page-locked memory.
// https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/
#pragma once
#include <tvm/ffi/c_api.h>

#include "device.h"

namespace tvmbuild {

// While it lives, what a virtual machine allocates in this thread is the card's own memory. What it allocates otherwise
// is shared on an integrated card: these are the outputs, and in packages without a graph also what lies between.
class OwnMemory {
 public:
  OwnMemory() { wishes++; }
  ~OwnMemory() { wishes--; }
  OwnMemory(const OwnMemory &) = delete;
  OwnMemory &operator=(const OwnMemory &) = delete;

  static bool is_wanted() { return wishes > 0; }

 private:
  static thread_local int wishes;
};

// tvmbuild_cuda.call_with_own_memory(function, arguments…): for what makes a virtual machine, whose constants must be
// the card's own.
int call_with_own_memory(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// tvmbuild_cuda.shares_memory(index): whether a card's kernels use page-locked memory in place.
int tell_sharing(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// tvmbuild_cuda.share(tensor, device): the same memory as a tensor of the CPU or of a card, or None if they do not
// share it. A tensor for the CPU is ready: this waits for the card.
int share_tensor(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

}  // namespace tvmbuild
