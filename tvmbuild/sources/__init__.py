"""Where models come from: a path, a URL, a file inside a Python package; or a function of the user's.

Nothing fetched is ever executed: the function is in a file of the project, as its dodo.py is.
"""
