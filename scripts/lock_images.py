"""Lock the packages of the Ray images, of the engines in stories, and uv for all images, with hashes.

`uv pip compile --generate-hashes` writes the hash of every file of every release for all platforms: 400 KB
per image. This script keeps the wheels that fit the images (CPython 3.11, glibc on x86-64 and on arm64). It
keeps no source archives, so that nothing is built: 35 KB. Locked versions stay while they fit; delete the
lock first to get newer ones. Both platforms get the same versions.

    python scripts/lock_images.py
"""

import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = ("images/ray*/requirements.in", "images/*/uv.in", "cluster/images/engines/*/requirements.in")
PYTHON = "3.11"
PLATFORMS = {"x86_64": "x86_64-manylinux_2_34", "aarch64": "aarch64-manylinux_2_34"}
"""uv's name of each platform, by `platform_machine`. The first one determines the versions."""
HEADER = """\
# Made from {source} by scripts/lock_images.py: wheels for CPython {python}, glibc on x86-64 and arm64.
"""

Locks = Mapping[str, dict[str, Any]]
"""Pylock document of each platform, by `platform_machine`."""


def resolve(source: Path) -> Locks:
    """Resolve a requirements file, with its overrides and excludes, for each platform."""
    target = source.with_suffix(".txt")
    kept = "\n".join(pinned(target.read_text())) if target.exists() else ""
    locks: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        versions = Path(scratch, "versions.txt")
        for machine, platform in PLATFORMS.items():
            # uv prefers the versions in its output file but does not require them.
            versions.write_text(kept)
            _compile(source, platform, "--no-header", "--no-annotate", "-o", str(versions))
            kept = "\n".join([*pinned(versions.read_text()), *pinned(kept)])
            document = _compile(source, platform, "--format", "pylock.toml", "-c", str(versions))
            locks[machine] = tomllib.loads(document)
    return locks


def pinned(requirements: str) -> list[str]:
    """Return the versions in a requirements file, without hashes and markers."""
    return re.findall(r"^[A-Za-z0-9][\w.-]*==[\w.+!-]+", requirements, re.MULTILINE)


def _compile(source: Path, platform: str, *options: str) -> str:
    command = ["uv", "pip", "compile", "-q", *options]
    command += ["--python-version", PYTHON, "--python-platform", platform, "--only-binary", ":all:"]
    for option in ("overrides", "excludes"):
        if (file := source.with_name(f"{option}.txt")).exists() and source.name == "requirements.in":
            command += [f"--{option}", str(file)]
    return subprocess.run([*command, str(source)], check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603


def requirements(locks: Locks) -> Iterator[str]:
    """Yield one requirement for each package with the hashes of its fitting wheels.

    If only one platform needs a package, a marker restricts the requirement to that platform.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for machine, lock in locks.items():
        for package in lock["packages"]:
            hashes = {wheel["hashes"]["sha256"] for wheel in package.get("wheels", ())}
            if not hashes:
                raise SystemExit(f"{package['name']} {package['version']} has no wheel for {machine}")
            found.setdefault(package["name"], {}).setdefault(package["version"], set()).update(hashes)
            found[package["name"]].setdefault("", set()).add(machine)
    for name, versions in sorted(found.items()):
        machines = versions.pop("")
        if len(versions) > 1:
            raise SystemExit(f"{name} differs between platforms: {', '.join(sorted(versions))}")
        [(version, hashes)] = versions.items()
        only = [f' ; platform_machine == "{machine}"' for machine in machines if len(machines) < len(locks)]
        lines = [f"{name}=={version}{''.join(only)}", *(f"--hash=sha256:{value}" for value in sorted(hashes))]
        yield " \\\n    ".join(lines)


def write(source: Path) -> None:
    """Lock one file into the .txt file of the same name."""
    header = HEADER.format(source=source.name, python=PYTHON)
    source.with_suffix(".txt").write_text(header + "\n".join(requirements(resolve(source))) + "\n")


def main() -> None:
    """Lock all files."""
    for pattern in SOURCES:
        for source in sorted(REPOSITORY.glob(pattern)):
            write(source)


if __name__ == "__main__":
    main()
