"""The first programs of a gateway pod's two containers.

`supervisor.py` starts the HAProxies and looks at them, `agent_keeper.py` starts the agent again and again.
"""
