"""Rewrites within ONNX: operators that the importer lacks or gets wrong become operators that it converts correctly."""
