"""The runtime of packages, which needs TVM's runtime library and not its compiler."""
