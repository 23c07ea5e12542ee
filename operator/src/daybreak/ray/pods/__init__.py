"""Pod templates of a RayCluster: head and workers."""
