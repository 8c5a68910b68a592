"""The report, which shows result files as tables, Markdown and HTML."""
