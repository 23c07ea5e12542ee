"""HAProxy that holds, checks, counts and forwards requests to the services."""
