"""ONNX → ONNX: operators that the importer lacks, or gets wrong, in terms of those that it has."""
