"""What was seen unused, since when and how often."""
