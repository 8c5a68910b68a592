"""Kinds of targets: llvm, cuda, vulkan; one module and one row of the table each."""
