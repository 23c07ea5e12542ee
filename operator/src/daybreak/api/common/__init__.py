"""Common definitions of all kinds: names, conditions, sources of weights, engine arguments, raw manifests."""
