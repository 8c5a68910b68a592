"""ONNX → Relax → pipeline → executable → linked library; the target table; upstream workarounds."""
