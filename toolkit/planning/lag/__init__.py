"""Lag in offsets and in seconds, trend and status."""
