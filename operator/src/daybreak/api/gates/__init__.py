"""API types of every workload behind a gateway: sleep, held requests, access and status."""
