"""The sources of models: a path, a URL, a file in a Python package or on the Hub, or the user's own function.

No fetched file is ever executed. The user's function is in a file of the project, like the project's dodo.py.
"""
