"""The size of a replica, nodes, whether it fits, and why it does not. Pure."""
