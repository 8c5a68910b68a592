"""The step cache: outputs kept under everything that they depend on."""
