"""ONNX operator → Relax, where TVM 0.27's own conversion is wrong, slow or missing: each with its reason."""
