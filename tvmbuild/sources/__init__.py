"""The sources of models: a path, a URL, a file inside a Python package, or the user's own function.

Nothing fetched is ever executed: the function is in a file of the project, as its dodo.py is.
"""
