"""The gateways of namespaces, as the operator sees them: their objects and ports, and what they tell."""
