"""What a target is to the compiler: its kind, its instructions, its vectors and caches."""
