"""Programs written by `torch.export.save`, converted to ONNX."""
