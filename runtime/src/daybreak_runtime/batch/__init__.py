"""Batch inference from rows to answers.

`python -m daybreak_runtime.batch` runs on the Ray head, as a Ray job.
"""
