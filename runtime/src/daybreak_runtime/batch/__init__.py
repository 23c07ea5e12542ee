"""A batch: rows in, answers out. `python -m daybreak_runtime.batch` runs on the Ray head, as a Ray job."""
