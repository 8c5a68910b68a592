"""Drives MetaSchedule: search, cost model, building and timing candidates."""
