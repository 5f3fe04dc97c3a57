"""The only code that changes a cluster: `apply_plan`; and what became of runs that were cut off."""
