"""Commands that change a cluster."""
