"""Converters of ONNX operators to Relax, each for an operator whose converter in TVM 0.27 is wrong, slow or missing."""
