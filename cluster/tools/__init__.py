"""Tools for all parts of the cluster: programs, processes, files, locks, ports."""
