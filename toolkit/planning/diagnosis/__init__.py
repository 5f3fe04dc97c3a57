"""What keeps a group from going on."""
