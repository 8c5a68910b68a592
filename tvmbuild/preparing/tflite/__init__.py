"""TensorFlow Lite's files as ONNX: read, written with ONNX's operators, and compared with what LiteRT computes."""
