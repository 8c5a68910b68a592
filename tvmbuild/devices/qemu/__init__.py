"""Emulated boards."""
