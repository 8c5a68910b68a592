"""Tunes a model for a target: extracts its Tasks, searches schedules for them, elects the best."""
