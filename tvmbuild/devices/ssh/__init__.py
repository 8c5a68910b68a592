"""Boards without Python, behind ssh."""
