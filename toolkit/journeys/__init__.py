"""One file per verb: read facts, plan, check, decide, apply."""
