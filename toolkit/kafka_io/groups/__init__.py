"""Reading groups, their members and their committed offsets."""
