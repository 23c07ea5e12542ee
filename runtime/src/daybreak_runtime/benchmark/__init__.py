"""Search for the best settings of an engine under load, as `python -m daybreak_runtime.benchmark`."""
