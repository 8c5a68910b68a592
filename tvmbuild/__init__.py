"""tvmbuild: `make` for neural networks on Apache TVM."""

__version__ = "0.1.0"
