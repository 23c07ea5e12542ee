"""Data path of the gateway: HAProxy, and the Python that starts and configures it."""
