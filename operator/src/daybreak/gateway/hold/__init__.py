"""The HAProxy in front of the services: holds, checks, counts and passes requests."""
