"""The fleet pipeline: reading, named transforms and the job that joins them."""
