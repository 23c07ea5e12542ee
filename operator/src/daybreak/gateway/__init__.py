"""The gateway's data path: one HAProxy process, and the Python that starts and programs it."""
