"""Runbooks: their pages, their runs over many clusters, their notices."""
