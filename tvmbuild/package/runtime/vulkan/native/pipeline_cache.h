// What drivers compiled, kept in a file for the next process: compiling takes seconds for a network.
#pragma once

namespace tvmbuild {

struct Device;

// The folder; without one nothing is kept. Before the first use of a device.
void set_pipeline_folder(const char *folder);

// Read the device's file, if it is whole and of this driver.
void open_pipeline_cache(Device &device);
// Write it where pipelines were made since. An error is none: the next process compiles again.
void save_pipeline_cache(Device &device);
void save_pipelines_now_and_then(Device &device);

}  // namespace tvmbuild
