"""Commands that run notebooks and write reports."""
