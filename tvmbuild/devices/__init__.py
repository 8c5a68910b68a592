"""The devices on which packages and candidates run."""
