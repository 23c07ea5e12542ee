"""Environment of Python programs that tests start: imported modules are compiled once for all of them."""

from cluster import paths

COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(paths.DAYBREAK / "pycache")}
