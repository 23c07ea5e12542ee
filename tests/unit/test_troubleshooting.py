"""docs/troubleshooting.md: each reason has a section or a link to the page with its table.

The commands of the page name existing kinds, labels and fields.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from daybreak.api.common.conditions import Reason
from daybreak.api.llmroute.status import RouteConditionType, RouteReason

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
CRD = ROOT / "charts" / "daybreak" / "files" / "crds"

VERBS = {"annotate", "describe", "exec", "get", "logs", "port-forward"}
RESOURCES = {
    "configmap", "controllerrevisions", "crd", "deployment", "events", "jobs", "limitrange", "llm",
    "llmroute", "modelserver", "networkpolicy", "nodes", "poddisruptionbudget", "pods", "pvc", "rayservice",
    "resourcequota", "secrets", "service", "serviceaccount",
}  # fmt: skip
WITH_A_VALUE = {"-c", "-l", "-n", "-o", "--field-selector"}
"""Options of kubectl with the value in the next word."""


def sections(text: str, level: int) -> Mapping[str, str]:
    """Return the text below each heading of a level, by heading."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@cache
def schema(kind: str) -> Any:
    (file,) = CRD.glob(f"*{kind}*.yaml")
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


REASONS = sections(sections(PAGE.read_text(), 2)["Reasons"], 3)
ROUTE_REASONS = sections(sections(PAGE.read_text(), 2).get("Reasons of an LLMRoute", ""), 3)


def commands() -> list[str]:
    return re.findall(r"^ {4}(kubectl .*)$", PAGE.read_text(), re.MULTILINE)


def values(words: list[str], option: str) -> Iterator[str]:
    yield from (value for word, value in pairwise(words) if word == option)


def test_page_has_exactly_one_section_per_reason() -> None:
    assert list(REASONS) == [reason.value for reason in Reason]


@pytest.mark.parametrize("reason", list(Reason))
def test_section_names_condition_and_command(reason: Reason) -> None:
    section = REASONS[reason]
    conditions = ("Ready", "Active", "Schedulable", "Reconciling", "Stalled", "On all conditions")
    assert any(f"`{name}=" in section or name == section.strip()[: len(name)] for name in conditions)
    # A reason of a healthy state needs no command.
    assert "    kubectl " in section or reason in (Reason.RECONCILED, Reason.NODES_FIT)


def test_page_has_exactly_one_section_per_route_reason() -> None:
    assert list(ROUTE_REASONS) == [reason.value for reason in RouteReason]


@pytest.mark.parametrize("reason", list(RouteReason))
def test_route_section_names_condition_and_command(reason: RouteReason) -> None:
    section = ROUTE_REASONS[reason]
    assert any(f"`{kind}=" in section for kind in RouteConditionType)
    assert "    kubectl " in section or reason is RouteReason.ROUTED


@pytest.mark.parametrize("page", ["batch.md", "tuning.md"])
def test_page_links_to_reason_tables_of_jobs(page: str) -> None:
    """The tests of each kind's spec check that each reason has a row."""
    (tables,) = (text for name, text in sections(PAGE.read_text(), 2).items() if name == "Reasons of jobs")
    assert f"({page}#reasons)" in tables
    assert "## Reasons\n\n| reason | what to do |" in (ROOT / "docs" / page).read_text()


@pytest.mark.parametrize("command", commands())
def test_command_uses_valid_kubectl_verb_and_resource(command: str) -> None:
    words = shlex.split(command)[1:]
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    plain = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in WITH_A_VALUE
    ]
    verb, target = plain[0], plain[1] if len(plain) > 1 else ""
    assert verb in VERBS
    if verb in ("logs", "exec", "port-forward"):
        assert target.startswith("deployment/") or target == "POD" or "-l" in options
    else:
        assert set(target.split(",")) <= RESOURCES
    for path in values(words, "-o"):
        assert path in ("wide", "yaml") or path.startswith(("jsonpath=", "custom-columns="))


def test_label_selectors_match_labels_of_objects() -> None:
    written = "".join(
        file.read_text() for file in (ROOT / "tests" / "golden" / "__snapshots__").rglob("*.yaml")
    )
    selectors = [selector for command in commands() for selector in values(shlex.split(command), "-l")]
    assert selectors
    for part in {part for selector in selectors for part in selector.split(",")}:
        label, _, value = part.partition("=")
        # KubeRay sets the labels of `ray.io/`.
        assert label.startswith("ray.io/") or f"{label}: " in written, part
        assert value.isupper() or label.startswith("ray.io/") or f"{label}: {value}\n" in written, part


def test_status_fields_in_commands_exist_in_crd() -> None:
    paths = {
        (shlex.split(command)[2], path)
        for command in commands()
        for path in re.findall(r"\{\.((?:status|spec)[\w.\[\]*]*)", command)
    }
    assert {("llm", "status.models[*].cache"), ("llmroute", "status.canary.message")} <= paths
    for resource, path in paths:
        found: Any = schema("llmservice" if resource == "llm" else resource)
        for name in path.split("."):
            name, listed, _ = name.partition("[")
            found = found["properties"][name]
            found = found["items"] if listed else found
