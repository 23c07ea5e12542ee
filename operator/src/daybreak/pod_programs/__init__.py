"""Programs that run in pods of their own, in the Ray image: each is a package here, handed over as one text.

They import nothing else of Daybreak, which is not in that image; `text` joins a program's modules.
"""
