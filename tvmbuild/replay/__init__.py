"""Replay of records by the compiler: traces read and replayed, in processes that may crash."""
