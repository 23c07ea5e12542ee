"""What HAProxy should be told of each workload, from its object and its pods."""
