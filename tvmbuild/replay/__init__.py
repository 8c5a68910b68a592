"""The replay of records by the compiler, in processes that may crash."""
