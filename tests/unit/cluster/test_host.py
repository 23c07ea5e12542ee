"""Kernel parameters: the program restores their values. A folder replaces /proc/sys."""

from pathlib import Path

import pytest

from cluster import paths
from cluster.machine import host
from cluster.machine.host import parameters, set_parameters

BEFORE = {"net/ipv4/ip_forward": "0", "vm/overcommit_memory": "2", "kernel/panic": "1"}
BY_THE_KUBELET = {"net/ipv4/ip_forward": "1", "vm/overcommit_memory": "1", "kernel/panic": "10"}


def write(folder: Path, values: dict[str, str]) -> None:
    for name, value in values.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{value}\n")


def test_kernel_parameters_are_restored_to_recorded_values(tmp_path: Path) -> None:
    write(tmp_path, BEFORE)
    noted = parameters(tmp_path)
    assert noted == BEFORE
    write(tmp_path, BY_THE_KUBELET)
    set_parameters(noted, tmp_path)
    assert parameters(tmp_path) == BEFORE


def test_unchanged_parameters_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, BEFORE)
    monkeypatch.setattr(Path, "write_text", lambda *_: pytest.fail("written"))
    set_parameters(BEFORE, tmp_path)


def test_missing_parameter_is_not_created(tmp_path: Path) -> None:
    set_parameters(BEFORE, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_restore_writes_parameters_of_first_remember(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[dict[str, str]] = []
    monkeypatch.setattr(paths, "HOST_STATE", tmp_path / "cluster" / "host.json")
    monkeypatch.setattr(host, "_FIXED_PATHS", ())
    monkeypatch.setattr(host, "_remove_log_links", lambda _: None)
    monkeypatch.setattr(host, "parameters", lambda: BEFORE)
    monkeypatch.setattr(host, "set_parameters", written.append)
    host.remember()
    monkeypatch.setattr(host, "parameters", lambda: BY_THE_KUBELET)
    host.remember()
    host.restore()
    assert written == [BEFORE]


def test_all_managed_parameters_exist_on_this_kernel() -> None:
    assert set(parameters()) == set(host._PARAMETERS)
