"""Measured schedules that live in git: one JSON file for each (target, Task)."""
