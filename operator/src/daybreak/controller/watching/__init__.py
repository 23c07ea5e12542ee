"""What has every object of a kind looked at again: nodes, what fits on them, whose turn it is."""
