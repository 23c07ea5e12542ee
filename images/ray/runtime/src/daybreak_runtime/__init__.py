"""What Daybreak adds to Ray Serve LLM inside the Ray pods.

`http` is the replica's own HTTP port and `start` tells why an engine did not start; neither knows Ray or
vLLM. `llm` puts them on Ray Serve LLM's server.
"""
