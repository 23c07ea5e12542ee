"""The kinds, a folder for each. None knows another."""
