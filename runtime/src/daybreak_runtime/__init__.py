"""Additions of Daybreak to Ray Serve LLM inside the Ray pods.

`http` is the direct HTTP port of a replica, and `start` reports why an engine did not start; neither knows
Ray or vLLM. `ahead` imports vLLM before its processes are needed. `llm` adds all of it to Ray Serve LLM's
server.
"""
