"""The agent of a gateway pod: what it reads of the cluster, and what it tells of the requests."""
