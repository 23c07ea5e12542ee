"""Result of a check, written again after every step because the machine may be taken away at any time."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import machine
from daybreak import versions

OURS = ("gateway_direct", "gateway", "serve")
"""Paths through Daybreak; the first measured one is judged."""
GOALS: Mapping[str, report.Goal] = {
    "requests_ratio_64": {"min": 0.97},
    "tokens_ratio_64": {"min": 0.97},
    "added_ttft_p50_ms_64": {"max": 10},
}
_FIGURES = (
    "requests_per_second",
    "tokens_per_second",
    "ttft_p50_ms",
    "ttft_p95_ms",
    "tpot_p50_ms",
    "cores_in_front",
)


def table(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each path and number of clients, with medians over its runs."""
    places = dict.fromkeys((run["path"], run["clients"]) for run in runs if "error" not in run)
    rows = []
    for path, clients in sorted(places, key=lambda place: place[1]):
        of_place = [
            run for run in runs if (run["path"], run["clients"]) == (path, clients) and "error" not in run
        ]
        row: dict[str, Any] = {"path": path, "clients": clients, "runs": len(of_place)}
        row |= {figure: report.median([run[figure] for run in of_place]) for figure in _FIGURES}
        row["errors"] = sum(sum(run["errors"].values()) for run in of_place)
        row["wrong_lengths"] = sum(run["wrong_lengths"] for run in of_place)
        rows.append(row)
    return rows


def measures(rows: Sequence[Mapping[str, Any]], starts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the judged measures: Daybreak relative to `vllm serve` with the same clients, and the starts."""
    by_place = {(row["path"], row["clients"]): row for row in rows}
    found: dict[str, float] = {}
    way = judged(rows)
    for clients in sorted({row["clients"] for row in rows}):
        ours, alone = by_place.get((way, clients)), by_place.get(("vllm", clients))
        if ours is None or alone is None:
            continue
        found[f"requests_ratio_{clients}"] = ours["requests_per_second"] / alone["requests_per_second"]
        found[f"tokens_ratio_{clients}"] = ours["tokens_per_second"] / alone["tokens_per_second"]
        found[f"added_ttft_p50_ms_{clients}"] = ours["ttft_p50_ms"] - alone["ttft_p50_ms"]
    for name, start in starts.items():
        if "first_answer_seconds" in start:
            found[f"start_{name.replace('-', '_')}_seconds"] = start["first_answer_seconds"]
    return found


def judged(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the judged path, or an empty string if none was measured."""
    measured = {row["path"] for row in rows}
    return next((way for way in OURS if way in measured), "")


class Result:
    """Results of one check so far."""

    def __init__(self, file: Path | None, title: str, command: str, **facts: Any) -> None:
        self._file = file
        self._facts = {"title": title, "command": command, "complete": False, **facts}
        self.runs: list[dict[str, Any]] = []
        self.starts: dict[str, dict[str, Any]] = {}
        self.checks: dict[str, dict[str, Any]] = {}
        self.failures: list[str] = []

    def document(self) -> dict[str, Any]:
        """Return the result in the form of `bench/report.py`, with additional fields."""
        rows = table(self.runs)
        found = measures(rows, self.starts)
        return {
            **self._facts,
            "versions": {"daybreak": versions.DAYBREAK, **machine.versions()},
            "machine": {"cores": os.cpu_count(), "words": machine.words()},
            "path": judged(rows),
            "measures": {key: round(value, 4) for key, value in found.items()},
            "goals": {key: dict(goal) for key, goal in GOALS.items() if key in found},
            "table": rows,
            "starts": self.starts,
            "checks": self.checks,
            "failures": self.failures,
            "runs": self.runs,
        }

    def write(self, **facts: Any) -> None:
        """Write the results so far."""
        self._facts |= facts
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self.document(), indent=2) + "\n")

    def verdict(self) -> tuple[str, bool]:
        """Return the verdict for display, and True if all is well."""
        document = self.document()
        lines = [f"{document['title']}: {document['machine']['words']}"]
        for row in document["table"]:
            lines.append(
                f"  {row['path']:15} {row['clients']:4} clients {row['requests_per_second']:8.2f} req/s "
                f"{row['tokens_per_second']:9.1f} tok/s  "
                f"TTFT {row['ttft_p50_ms']:.0f}/{row['ttft_p95_ms']:.0f} ms  "
                f"TPOT {row['tpot_p50_ms']:.2f} ms  {row['cores_in_front']:.2f} cores in front  "
                f"{row['errors']} errors, {row['wrong_lengths']} wrong lengths"
            )
        good = not self.failures
        lines += [f"  FAILED: {failure}" for failure in self.failures]
        for path, answers in self.checks.items():
            wrong = {name: message for name, message in answers.items() if message is not True}
            lines.append(f"  {path}: {wrong or 'answers as it should'}")
            good &= not wrong
        for row in document["table"]:
            good &= not row["errors"] and not row["wrong_lengths"]
        for key, value in document["measures"].items():
            goal = document["goals"].get(key)
            kept = goal is None or report.met(value, goal)
            good &= kept
            desired = "" if goal is None else f" (goal {goal}: {'met' if kept else 'MISSED'})"
            lines.append(f"  {key} = {value:g}{desired}")
        lines.append("  verdict: " + ("good" if good else "NOT good"))
        return "\n".join(lines), good
