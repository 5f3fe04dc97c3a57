"""The only code that reads or writes offsetbook's own files."""
