"""The only code that changes a cluster: apply plans, and reconcile interrupted runs."""
