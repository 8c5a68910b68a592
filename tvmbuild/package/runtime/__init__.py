"""The runtime of packages, which needs TVM's runtime library and no compiler."""
