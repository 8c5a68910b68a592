"""Modules that every other folder may use: values, files, errors, words."""
