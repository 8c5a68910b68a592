// How long each kernel takes, told by the device's own clock.
#pragma once
#include <stdint.h>

#include "list.h"
#include "text.h"

namespace tvmbuild {

struct Device;
struct Kernel;

struct KernelTime {
  char name[256];
  uint64_t calls;
  double nanoseconds;
};

bool start_profile(Device &device);
// Ends it and writes a JSON array of {"name", "calls", "us"}.
bool stop_profile(Device &device, Text &json);

// Run operations with timestamps around each, and wait. The device's lock is held.
bool run_profiled(Device &device, const List<uint64_t> &words, uint32_t operations, uint64_t &number);

}  // namespace tvmbuild
