"""Data files: the project that `tvmbuild init` writes, the known boards, and the script of a bundle."""
