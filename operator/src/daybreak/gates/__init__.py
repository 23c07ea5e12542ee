"""Sleep and wake behind a gateway: state machine, policy, traffic, history; in gateways/, the gateways."""
