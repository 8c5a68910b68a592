"""The report: result files as tables, Markdown and HTML."""
