"""Lag in records and in seconds, trend and status."""
