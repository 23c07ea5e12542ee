"""Sleep and wake behind a gateway: state machine, traffic, ports, and the gateway's objects and reports."""
