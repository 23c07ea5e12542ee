"""Costs of the gateway while models are awake, asleep and under attack."""
