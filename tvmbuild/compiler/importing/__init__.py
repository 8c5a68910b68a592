"""From ONNX to Relax."""
