"""
Hold partitions of a live group back from its members, from outside, on ordinary brokers.

A sentinel, offsetbook's member, acts inside the group. `recipe_steps` is what a recipe is;
`consumer_hold` and `classic_hold` are the recipes of the two protocols; `keeper` is the process
that carries one out.
"""
