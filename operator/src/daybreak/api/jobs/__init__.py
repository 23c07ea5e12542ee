"""What the APIs of kinds that become one job share."""
