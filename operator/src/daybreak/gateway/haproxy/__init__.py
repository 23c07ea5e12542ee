"""HAProxy as a program: start, stop and admin socket; errors and paths of all HAProxies."""

CHILD = f"{__path__[0]}/child.py"
"""Path of the program that becomes another one, which ends with its parent. (`pathlib` would take a keeper a
megabyte.)"""
