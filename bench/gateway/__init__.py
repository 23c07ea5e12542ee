"""The gateway: what it costs while models are awake, asleep and under attack."""
