"""Result files as tables, Markdown and HTML."""
