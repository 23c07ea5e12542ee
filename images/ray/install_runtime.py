"""Install `daybreak_runtime` into an environment: pure Python without dependencies, so it is copied.

That needs neither a network nor a build tool, which the CPU image has thrown out by then.

Usage: install_runtime.py SOURCE SITE_PACKAGES, SOURCE being the folder with its pyproject.toml.
"""

import compileall
import shutil
import sys
import tomllib
from pathlib import Path

PACKAGE = "daybreak_runtime"


def install(source: Path, site: Path) -> Path:
    """Copy the package, and write its metadata: version and entry points; returns the package's folder."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    package = site / PACKAGE
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(source / "src" / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = site / f"{PACKAGE}-{project['version']}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {what}" for name, what in entries.items()), ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    (metadata / "INSTALLER").write_text("daybreak\n")
    compileall.compile_dir(package, quiet=1)
    return package


if __name__ == "__main__":
    print(install(Path(sys.argv[1]), Path(sys.argv[2])))
