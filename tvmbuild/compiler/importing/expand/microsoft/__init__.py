"""Operators of com.microsoft: what ONNX Runtime makes of a model when it optimises it, and exporters for it."""
