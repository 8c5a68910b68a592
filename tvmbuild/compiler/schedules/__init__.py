"""Schedules by rule, for what no record has scheduled."""
