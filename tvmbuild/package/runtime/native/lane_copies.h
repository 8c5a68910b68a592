// Lanes: the copies of a call on a stream of their own, so that they run beside the kernels of other calls.
#pragma once
#include <tvm/ffi/c_api.h>

#include "list.h"

namespace tvmbuild {

struct LaneCopy {
  char *from, *to;
  size_t size;
};

struct LaneCopies {
  void *stream;
  int device;  // the index of the card that has the inputs, or the outputs
  List<LaneCopy> copies;
};

// tvmbuild_NAME.copy_in(stream, from, to, …): copy tensors of the host to tensors of a card on a stream, and let the
// kernels that this thread launches next wait for it. The bytes may change after it but in memory that the card knows:
// CUDA's page-locked memory, and that of tvmbuild_vulkan.allocate_host.
int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// tvmbuild_NAME.copy_out(stream, from, to, …): copy tensors of a card to tensors or addresses of the host on a stream,
// after the kernels that this thread has launched. The bytes are there when the stream has been waited for.
// By Vulkan, calls whose inputs and outputs exceed 16 MiB of staging memory wait for each other.
int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// Defined in the runtime's own folder. False with the failure set.
bool copy_in_lane(const LaneCopies &all);
bool copy_out_lane(const LaneCopies &all);

// While it lives, this thread's copies to and from a device are on another stream.
template <class Device, class Stream>
class OnStream {
 public:
  OnStream(Device &device, Stream stream) : device_(device), before_(current_stream(device)) {
    set_current_stream(device_, stream);
  }
  ~OnStream() { set_current_stream(device_, before_); }
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

 private:
  Device &device_;
  Stream before_;
};

}  // namespace tvmbuild
