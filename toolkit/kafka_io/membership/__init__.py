"""
Requests and responses between a group member and its coordinator.

Each request is a small frozen record with two functions: `build` makes the protocol message and
`read` turns the broker's answer into a record of ours. `GroupChannel` sends them.
"""
