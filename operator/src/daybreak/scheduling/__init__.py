"""Size of a replica, nodes, the fit check with its explanations, and the accelerator queue. Pure."""
