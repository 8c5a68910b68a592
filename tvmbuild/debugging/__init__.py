"""The search for the operator at which a package's numbers become wrong, and for the option that fixes it."""
