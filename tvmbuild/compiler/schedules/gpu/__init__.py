"""Schedules of GPU functions."""
