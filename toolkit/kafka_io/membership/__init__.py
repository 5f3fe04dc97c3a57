"""
What a member of a group says to its coordinator, and what it hears.

Each request is a small frozen record with two functions: `build` makes the protocol message and
`read` turns the broker's answer into a record of ours. `GroupChannel` sends them.
"""
