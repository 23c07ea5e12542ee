"""The first program of a gateway pod: it starts the HAProxies and the agent, and starts the agent again."""
