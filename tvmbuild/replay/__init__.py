"""Where records meet the compiler: traces read and replayed, in processes that may crash."""
