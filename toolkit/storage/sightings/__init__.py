"""Sightings: what was observed as unused, since when and how often."""
