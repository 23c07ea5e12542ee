"""Programs that run in separate pods of the Ray image. Each is a package here and is passed as one text.

The programs import no other module of Daybreak, which is missing in that image. `text` joins a program's
modules.
"""
