"""The tools that all parts of the cluster use: programs, processes, files, locks, ports."""
