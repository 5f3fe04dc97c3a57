"""
Requests and responses between a group member and its coordinator.

Each request is a small frozen record with two functions: `build` makes the protocol message, and
`read` makes a record of the broker's response. `GroupChannel` sends them.
"""
