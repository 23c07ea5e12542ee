"""Access logs and watch events in the storm test of the end-to-end tests."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from quickstart.target import Target
from story.load import request_log
from story.load.request_log import count, ingress_lines
from story.load.storm import Tally
from story.objects.kubernetes import NAMESPACE, Kubernetes
from story.objects.phases import Phases, turned_round

STORM = "storm-0a1b2c3d"
LOG = """\
INFO 2026-11-22 05:09:11,368 llm_OpenAiIngress 2t1w9y8n -- Finished initializing replica.
INFO 2026-11-22 05:09:12,029 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-1 -- Started <ray.serve object>.
INFO 2026-11-22 05:09:12,127 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-1 -- POST /v1/completions 200 116.8ms
INFO 2026-11-22 05:09:12,197 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-12 -- POST /v1/completions 200 62.4ms
INFO 2026-11-22 05:09:12,446 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-5 -- POST /v1/completions 200 63.6ms
INFO 2026-11-22 05:09:12,518 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-5 -- POST /v1/completions 200 65.6ms
ERROR 2026-11-22 05:09:12,591 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-6 -- Request failed.
Traceback (most recent call last):
  File "/ray/serve/_private/replica.py", line 1459, in _handle_errors_and_metrics
INFO 2026-11-22 05:09:12,603 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-6 -- POST /v1/completions 500 76.8ms
INFO 2026-11-22 05:09:13,103 llm_OpenAiIngress 2t1w9y8n storm-99999999-1 -- POST /v1/completions 200 61.8ms
INFO 2026-11-22 05:09:13,203 llm_OpenAiIngress 2t1w9y8n 0c7f3a-1 -- GET /v1/models 200 2.1ms
"""
"""A line of Ray Serve 2.60, shortened. Request 5 was sent twice."""


class Heads(Target):
    """A cluster with one Ray head, with commands that run on this machine."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command on this machine."""
        command = arguments[arguments.index("--") + 1 :]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


class OneHead(Kubernetes):
    """A Kubernetes client that lists one Ray head."""

    def names(self, kinds: str, *which: str, namespace: str = NAMESPACE) -> list[str]:
        """Return the Ray head for any kind."""
        return ["pod/tiny-head"]


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubernetes:
    monkeypatch.setattr(request_log, "INGRESS_FILES", f"{tmp_path}/replica_*OpenAiIngress_*.log*")
    return OneHead(Heads(tmp_path, embedded=True))


def test_requests_are_counted_by_their_number() -> None:
    assert count(LOG.splitlines(), STORM) == {1: 1, 12: 1, 5: 2, 6: 1}


def test_repeated_and_missing_requests_are_listed() -> None:
    tally = Tally(sent=6, reached=count(LOG.splitlines(), STORM))
    assert (tally.there_twice, tally.never_there) == ([5], [2, 3, 4])


def test_all_ingress_logs_and_no_other_logs_are_read(head: Kubernetes, tmp_path: Path) -> None:
    ingress = "replica_llm_OpenAiIngress_2t1w9y8n.log"
    for name in (ingress, f"{ingress}.1", "replica_llm_LLMServer_tiny_n7rnwoza.log", "proxy_192.0.2.2.log"):
        (tmp_path / name).write_text(LOG)
    assert count(ingress_lines(head, "tiny", STORM), STORM) == {1: 2, 12: 2, 5: 4, 6: 2}


def test_log_without_counted_requests_raises_error(head: Kubernetes, tmp_path: Path) -> None:
    log = tmp_path / "replica_llm_OpenAiIngress_a.log"
    log.write_text(LOG)
    assert ingress_lines(head, "tiny", "storm-deadbeef") == []
    with pytest.raises(LookupError, match="no request of storm-deadbeef"):
        count([], "storm-deadbeef")
    log.write_text(LOG.replace("POST /v1/completions", "POST"))
    with pytest.raises(LookupError, match=r"lines with its name: \['INFO"):
        count(ingress_lines(head, "tiny", STORM), STORM)


def test_missing_log_raises_error(head: Kubernetes) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        ingress_lines(head, "tiny", STORM)


@pytest.mark.parametrize(
    ("phases", "times"),
    [
        (["Awake", "Draining", "Asleep", "Waking", "Awake"], 0),
        (["Awake", "Draining", "Awake", "Draining", "Asleep"], 1),
        (["Draining", "Waking", "Awake", "Draining", "Awake"], 2),
        (["Awake", "Draining"], 0),
    ],
)
def test_drains_that_do_not_end_asleep_are_counted(phases: list[str], times: int) -> None:
    assert turned_round(phases) == times


async def test_wait_from_earlier_position_finds_past_phase() -> None:
    phases, lines = Phases(), asyncio.StreamReader()
    following = asyncio.create_task(phases.follow(lines))
    lines.feed_data(b"Awake\nAwake\n")
    await phases.until("Awake")
    before = len(phases.observed)
    lines.feed_data(b"Draining\nAsleep\n")
    await phases.until("Asleep")
    await phases.until("Draining", since=before)
    assert phases.observed == ["Awake", "Draining", "Asleep"]
    lines.feed_eof()
    await following
    with pytest.raises(AssertionError, match="stopped to watch"):
        await phases.until("Draining")
