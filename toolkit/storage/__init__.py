"""The only code that reads or writes our own files."""
