"""What changes a group: commits, deletions, members that join again."""
