"""What every room may use: values, files, errors, words."""
