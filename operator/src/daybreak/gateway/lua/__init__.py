"""Lua that all HAProxies load."""

from pathlib import Path

LUA = Path(__file__).parent
"""Folder of the Lua files."""
