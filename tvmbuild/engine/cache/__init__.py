"""The step cache: outputs kept under all that they depend on."""
