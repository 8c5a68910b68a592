"""The device `ssh`: boards without Python, which run packages by a C++ program."""
