"""Committed offsets that nobody reads on from."""
