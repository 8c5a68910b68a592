"""Schedules of CPU functions."""
