"""The planning of stages, one module for each. `tvmbuild.stages` holds the code that runs in the child process."""
