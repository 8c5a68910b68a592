"""Where packages and candidates run."""
