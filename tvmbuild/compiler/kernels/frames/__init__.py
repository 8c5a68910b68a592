"""The kernels that make a network's input of a camera's frame: colours, resizing, scale, layout."""
