"""HTTP port in front of an ASGI app: allowed paths, a limit with a queue, health, and an orderly end."""
