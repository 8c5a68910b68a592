// The time of each launch and copy by the device's own clock.
#pragma once
#include <stdint.h>

#include "list.h"
#include "operations.h"
#include "text.h"

namespace tvmbuild {

struct Device;

struct OperationTime {
  char name[256];  // the kernel's, or "copy"
  double nanoseconds;
};

bool start_profile(Device &device);
// The number of operations that the device was given since then.
int64_t count_profiled(Device &device);
// End the profile and write a JSON array of {"name", "us"}: every operation, those of one thread in its order.
bool stop_profile(Device &device, Text &json);

// Run operations with timestamps around each, and wait. The device's lock is held.
bool run_profiled(Device &device, const Operations &operations);

}  // namespace tvmbuild
