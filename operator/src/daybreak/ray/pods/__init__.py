"""The pod templates of a RayCluster: head and workers."""
