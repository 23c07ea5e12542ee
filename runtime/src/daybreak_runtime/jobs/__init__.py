"""Common parts of Daybreak's jobs: storage of files, problems for display, and a port for progress."""
