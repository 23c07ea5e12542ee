"""HAProxy as a program: start it, end it, talk to its socket; errors and paths of all of them."""

CHILD = f"{__path__[0]}/child.py"
"""The program that becomes another one, which ends with its parent. (`pathlib` is a megabyte to a keeper.)"""
