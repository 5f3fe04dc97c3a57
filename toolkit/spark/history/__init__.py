"""What is kept of each reading of the fleet, as Parquet."""
