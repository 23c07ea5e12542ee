"""Machine of the cluster: requirements, changes by the cluster, and leftovers."""
