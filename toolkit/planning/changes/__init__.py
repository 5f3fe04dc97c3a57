"""Planners: turn a request and the facts of a cluster into a plan, one module per verb."""
