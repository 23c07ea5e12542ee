"""Lock what the Ray images install (images/ray*/requirements.txt), and uv for all images, with hashes.

`uv pip compile --generate-hashes` writes the hash of every file of every release for all platforms: 400 KB
for each image. This keeps the wheels that fit the images (CPython 3.11, glibc on x86-64), and no source
archives, so that nothing is built: 20 KB.

    python scripts/lock_images.py
"""

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).resolve().parents[1] / "images"
PYTHON = "3.11"
PLATFORM = "x86_64-manylinux_2_34"
HEADER = """\
# Made from {source} by scripts/lock_images.py: wheels for CPython {python} on x86-64 Linux with glibc.
"""


def resolve(source: Path) -> dict[str, Any]:
    """Resolve a requirements file, with the overrides and excludes beside it, to the pylock document."""
    command = ["uv", "pip", "compile", "-q", "--format", "pylock.toml"]
    command += ["--python-version", PYTHON, "--python-platform", PLATFORM, "--only-binary", ":all:"]
    for option in ("overrides", "excludes"):
        if (file := source.with_name(f"{option}.txt")).exists() and source.name == "requirements.in":
            command += [f"--{option}", str(file)]
    output = subprocess.run([*command, str(source)], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return tomllib.loads(output.stdout)


def requirements(lock: dict[str, Any]) -> Iterator[str]:
    """Yield one requirement for each package with the hashes of its fitting wheels."""
    for package in sorted(lock["packages"], key=lambda package: package["name"]):
        hashes = sorted(wheel["hashes"]["sha256"] for wheel in package.get("wheels", ()))
        if not hashes:
            raise SystemExit(f"{package['name']} {package['version']} has no wheel for {PLATFORM}")
        lines = [f"{package['name']}=={package['version']}", *(f"--hash=sha256:{value}" for value in hashes)]
        yield " \\\n    ".join(lines)


def write(source: Path) -> None:
    """Lock one file into the .txt beside it."""
    header = HEADER.format(source=source.name, python=PYTHON)
    source.with_suffix(".txt").write_text(header + "\n".join(requirements(resolve(source))) + "\n")


def main() -> None:
    """Lock all of them."""
    for source in sorted(IMAGES.glob("ray*/requirements.in")) + sorted(IMAGES.glob("*/uv.in")):
        write(source)


if __name__ == "__main__":
    main()
