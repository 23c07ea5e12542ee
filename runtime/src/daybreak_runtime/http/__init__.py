"""An HTTP port in front of an ASGI app: a list of paths, a limit with a queue, health, an orderly end."""
