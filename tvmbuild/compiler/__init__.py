"""The compiler: ONNX → Relax → pipeline → executable → linked library; the target table; workarounds for TVM."""
