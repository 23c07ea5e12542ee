"""Agent of a gateway pod: it reads the cluster's state, configures HAProxy and reports on requests."""
