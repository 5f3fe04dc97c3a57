"""What a cluster says about itself: broker versions, permissions, clock."""
