"""Converters of ONNX operators to Relax where TVM 0.27's own are wrong, slow or missing, each with its reason."""
