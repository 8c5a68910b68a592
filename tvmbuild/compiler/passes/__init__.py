"""The passes of the list in `compiler/pipeline.py`, from Relax to Relax, one in each file."""
