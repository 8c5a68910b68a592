"""Our Vulkan runtime for TVM, whose wheel has none: C++ in native/, built and loaded by plugin.py."""
