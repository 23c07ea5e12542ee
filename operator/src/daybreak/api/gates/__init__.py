"""What people ask for of a workload behind a gateway: sleep, held requests, access; and its status."""
