"""What planning asks of a stage, one module a stage; `tvmbuild.stages` has what runs in the child."""
