"""The import of ONNX models to Relax."""
