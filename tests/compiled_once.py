"""Environment of Python programs that tests start: what they import is compiled once, whoever starts them."""

from cluster import paths

COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(paths.DAYBREAK / "pycache")}
