"""The kinds of targets: llvm, cuda, vulkan. Each has one module and one row of the table."""
