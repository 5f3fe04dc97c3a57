"""The fleet pipeline: data sources, named transforms and the job that joins them."""
