"""Each of vLLM's processes requests permission for AMX."""

import importlib.metadata
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
IMAGE, RUNTIME = ROOT / "images" / "ray", ROOT / "runtime"
INSTALL = runpy.run_path(str(IMAGE / "install_runtime.py"))["install"]
AS_A_PROCESS_DOES = """
import importlib.metadata, sys
sys.path.insert(0, sys.argv[1])
from daybreak_runtime.start import amx
(plugin,) = importlib.metadata.entry_points(group="vllm.general_plugins")
before = amx.permitted()
plugin.load()()
print(amx.supported(), before, amx.permitted())
"""


def test_plugin_gets_amx_permission_if_processor_supports_amx(tmp_path: Path) -> None:
    """The check depends on the processor: without AMX, the plugin gets no permission and nothing fails."""
    INSTALL(RUNTIME, tmp_path)
    answer = subprocess.run(  # noqa: S603 - our own Python
        [sys.executable, "-c", AS_A_PROCESS_DOES, str(tmp_path)], capture_output=True, text=True, check=True
    )
    supported, before, after = answer.stdout.split()
    assert before == "False"
    assert after == supported


def test_the_metadata_names_the_plugin(tmp_path: Path) -> None:
    INSTALL(RUNTIME, tmp_path)
    (found,) = importlib.metadata.distributions(name="daybreak-runtime", path=[str(tmp_path)])
    assert [(entry.group, entry.name) for entry in found.entry_points] == [
        ("vllm.general_plugins", "daybreak_amx")
    ]
