"""Measurements on the embedded cluster with Daybreak."""
