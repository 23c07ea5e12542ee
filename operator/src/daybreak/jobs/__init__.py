"""Programs that run in pods of their own, in the Ray image: each is one file, handed over as text.

They import nothing of Daybreak, which is not in that image.
"""
