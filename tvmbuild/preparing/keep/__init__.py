"""The search for operators of a quantised network that must stay in floats, so that its accuracy is kept."""
