"""Operators of com.microsoft, which ONNX Runtime writes when it optimises a model, and exporters write for it."""
