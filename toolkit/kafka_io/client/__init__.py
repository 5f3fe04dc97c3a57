"""The connection to a cluster: settings, requests to coordinators and leaders, errors."""
