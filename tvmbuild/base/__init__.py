"""Modules that every other folder may import: values, files, processes, facts about machines, wording."""
