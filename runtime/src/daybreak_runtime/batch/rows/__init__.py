"""Rows: reading from a table, conversion to requests, and decoding of images."""
