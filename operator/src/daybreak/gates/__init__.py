"""Sleep and wake behind a gateway: state machine, policy, traffic and history."""
