"""The command `tvmbuild compile`: one model in, one package out."""
