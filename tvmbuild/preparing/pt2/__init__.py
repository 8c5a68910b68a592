"""Programs that `torch.export.save` wrote, as ONNX."""
