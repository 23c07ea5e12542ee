"""What Daybreak adds to Ray Serve LLM inside the Ray pods.

`http` is the replica's own HTTP port and `start` tells why an engine did not start; neither knows Ray or
vLLM. `ahead` imports vLLM before its processes are needed. `llm` puts all of it on Ray Serve LLM's server.
"""
