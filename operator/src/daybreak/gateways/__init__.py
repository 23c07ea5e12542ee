"""Gateways of namespaces in the operator: their objects, ports and reports."""
