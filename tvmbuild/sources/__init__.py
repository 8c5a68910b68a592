"""Where models come from: a path, a URL, a file inside a Python package. Nothing fetched is ever executed."""
