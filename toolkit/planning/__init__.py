"""Pure rules: facts in, frames and findings out. No client, clock, file or environment."""
