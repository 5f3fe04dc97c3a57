"""What all changes share."""
