"""The target as the compiler sees it: its kind, its instructions, its vectors and caches."""
