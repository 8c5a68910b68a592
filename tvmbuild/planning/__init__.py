"""The planning from specs to the Plan: steps, their needs, why they cannot run here, and their cost."""
