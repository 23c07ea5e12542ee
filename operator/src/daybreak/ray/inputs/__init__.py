"""Inputs of containers as volumes, mounts and variables: weights, PVCs, ConfigMaps and Secrets."""
