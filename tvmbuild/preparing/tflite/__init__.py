"""TensorFlow Lite files as ONNX: read, rewritten in ONNX operators, and compared with LiteRT's outputs."""
