"""The passes of the list in `compiler/pipeline.py`: Relax in, Relax out, one a file."""
