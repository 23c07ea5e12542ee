"""Imports of the check: only packages of images/ray."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SEEN = """
import importlib.metadata, json, sys
import bench.gpu.__main__
of = importlib.metadata.packages_distributions()
roots = {module.partition(".")[0] for module in sys.modules}
print(json.dumps(sorted({name for root in roots for name in of.get(root, ())})))
"""


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
def test_packages_imported_by_gpu_check_are_in_image_lock_file(image: str) -> None:
    paths = f"{ROOT}:{ROOT / 'operator/src'}:{ROOT / 'e2e'}"
    command = [sys.executable, "-c", SEEN]
    done = subprocess.run(  # noqa: S603
        command, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=60, check=True
    )
    lock = (ROOT / "images" / image / "requirements.txt").read_text()
    there = set(re.findall(r"^([a-z0-9.-]+)==", lock, re.MULTILINE))
    imported = {re.sub(r"[-_.]+", "-", name).lower() for name in json.loads(done.stdout)}
    assert {"pydantic", "pyyaml"} <= imported, "the check imports the operator's builders"
    assert imported <= there
