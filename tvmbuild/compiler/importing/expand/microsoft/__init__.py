"""Expansion of com.microsoft's operators, which ONNX Runtime writes when it optimises, and exporters write for it."""
