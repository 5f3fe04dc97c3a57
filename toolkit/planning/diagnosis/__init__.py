"""Diagnose why a group makes no progress."""
