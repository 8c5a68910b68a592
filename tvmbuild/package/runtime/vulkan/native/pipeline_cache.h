// The drivers' compiled kernels, kept in a file for the next process: compiling a network takes seconds.
#pragma once

namespace tvmbuild {

struct Device;

// Set the folder. Without one nothing is kept. Call it before the first use of a device.
void set_pipeline_folder(const char *folder);

// Read the device's file, if it is whole and made by this driver.
void open_pipeline_cache(Device &device);
// Write it if pipelines were made since. Errors are ignored: the next process compiles again.
void save_pipeline_cache(Device &device);
void save_pipelines_now_and_then(Device &device);

}  // namespace tvmbuild
