"""A small Debian for the images of the embedded cluster: packages unpacked, not installed.

dpkg would configure each package, 20 seconds in which little happens that an image for two programs needs.
What it does need of that is done here: folders, users, where names are looked up, and the linker's cache.
"""

import shutil
from pathlib import Path

from cluster.tools.programs import run

SUITE = "bookworm"
"""The Debian whose Python is 3.11, which the images' requirements are locked for."""
PACKAGES = (
    # What every Debian has.
    "base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep",
    "gzip", "hostname", "libc-bin", "mawk", "passwd", "procps", "sed", "tar", "usr-is-merged", "util-linux",
    # What the Dockerfiles expect of a base, as public Python images have it or apt-get brings it.
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
