"""
What people look at: tables and figures in a notebook, and the HTML file that a run leaves.

Every name that came from a cluster is shown as text, whatever it holds, and nothing that is shown
asks the network for anything.
"""
