"""tvmbuild's Vulkan runtime for TVM, whose wheel has none. plugin.py builds and loads the C++ code in native/."""
