"""Small Debian for the images of the embedded cluster, with packages unpacked but not configured.

dpkg would need 20 s to configure the packages, mostly for results that an image for two programs does not
need. This module creates the required results: folders, users, name resolution, and the linker's cache.
"""

import shutil
from pathlib import Path

from cluster.tools.programs import run

SUITE = "bookworm"
"""Debian release whose Python is 3.11, for which the images' requirements are locked."""
PACKAGES = (
    # Packages of every Debian system.
    "base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep",
    "gzip", "hostname", "libc-bin", "mawk", "passwd", "procps", "sed", "tar", "usr-is-merged", "util-linux",
    # Packages that the Dockerfiles expect of a base, from public Python images or apt-get.
    "binutils", "libgomp1", "libnuma1", "python3", "wget",
)  # fmt: skip
_HOOKS = "/usr/share/mmdebstrap/hooks/merged-usr"
_FOLDERS = ("media", "mnt", "opt", "srv", "usr/local/bin")
_FILES = {
    "usr/share/base-passwd/passwd.master": "etc/passwd",
    "usr/share/base-passwd/group.master": "etc/group",
    "usr/share/libc-bin/nsswitch.conf": "etc/nsswitch.conf",
}


def write(archive: Path) -> None:
    """Write the root file system as a tar file."""
    root = archive.with_suffix("")
    languages = 'Acquire::Languages "none"'
    options = ["--variant=extract", f"--hook-dir={_HOOKS}", f"--aptopt={languages}"]
    run(
        ["mmdebstrap", "--quiet", *options, f"--include={','.join(PACKAGES)}", SUITE, root],
        downloads="Debian packages of the images' base",
    )
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for source, target in _FILES.items():
        shutil.copyfile(root / source, root / target)
    (root / "usr" / "bin" / "awk").symlink_to("mawk")
    for name in ("doc", "info", "locale", "man"):
        shutil.rmtree(root / "usr" / "share" / name, ignore_errors=True)
    run(["ldconfig", "-r", root])
    run(["tar", "--create", "--file", archive, "--directory", root, "--numeric-owner", "."])
    shutil.rmtree(root)
