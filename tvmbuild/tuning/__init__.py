"""Tuning of a model for a target: extract its Tasks, search schedules for them, elect the best."""
