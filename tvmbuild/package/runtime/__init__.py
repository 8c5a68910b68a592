"""Run packages with TVM's runtime library alone; no compiler is needed."""
