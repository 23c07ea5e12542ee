"""First programs of a gateway pod's two containers.

`supervisor.py` starts and checks the HAProxies, `agent_keeper.py` starts and restarts the agent.
"""
