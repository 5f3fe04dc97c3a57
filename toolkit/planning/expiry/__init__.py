"""When committed offsets expire (KIP-211)."""
