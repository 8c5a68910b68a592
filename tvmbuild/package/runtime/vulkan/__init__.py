"""Our Vulkan runtime for TVM, whose wheel has none: C++ in native/, made ready and loaded by plugin.py."""
