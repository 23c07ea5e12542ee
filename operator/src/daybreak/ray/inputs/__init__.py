"""Inputs of containers as volumes, mounts and variables: weights, claims, ConfigMaps and Secrets."""
