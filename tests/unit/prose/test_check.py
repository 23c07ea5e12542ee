"""The check of the project's prose."""

import json
from pathlib import Path

import pytest

from scripts.prose import check
from scripts.prose.check import Finding, load_rules
from scripts.prose.texts import Scope, texts_of

RULES = {rule.name: rule for rule in load_rules()}
PYTHON = '''"""Who waits is told so."""

LIMIT = 3
"""Most of them."""
MESSAGE = f"{LIMIT} requests wait, and nobody asks"
path = "who"  # nobody reads it


def told(heard: int) -> None:
    """Whether it is open."""
'''


def found(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Return the lines and rules of what is found in a file."""
    monkeypatch.setattr(check, "ROOT", folder)
    (folder / name).write_text(text)
    return [(each.line, each.rule.name) for each in check.findings(name, list(RULES.values()))]


def test_python_docstrings_messages_comments_and_names_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = found("a.py", PYTHON, tmp_path, monkeypatch)
    assert {(1, "tell"), (1, "first-line-question")} <= set(lines)
    assert (4, "most") in lines, "the docstring of an attribute"
    assert (5, "nobody") in lines, "a message"
    assert (6, "nobody") in lines, "a comment"
    assert (9, "participle-name") in lines, "names of a function and of an argument"
    assert (10, "first-line-question") in lines
    assert all(line != 6 or rule == "nobody" for line, rule in lines), "a string of one word is a value"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "Text.\n\nNobody waits.\n"),
        ("a.lua", "local a = 1\n\n-- nobody waits here\n"),
        ("a.yaml", "a: 1\n\n# nobody waits here\n"),
        ("a.cfg.j2", 'a\n\nb "nobody waits here"\n'),
        ("a.json", '{"a": 1,\n\n"b": ["nobody waits here"]}\n'),
        ("Makefile", "a:\n\nb: ## nobody waits here\n"),
    ],
)
def test_prose_in_other_file_formats_is_checked(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(name, text, tmp_path, monkeypatch) == [(3, "nobody")]


def test_code_and_link_targets_in_markdown_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "`nobody` and [a](nobody.md)\n\n```\nnobody\n```\n\n    nobody\n"
    assert found("a.md", text, tmp_path, monkeypatch) == []


def test_question_heading_is_found_only_in_headings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# Who may ask\n\nWho may ask\n\n## How to install\n"
    rules = found("a.md", text, tmp_path, monkeypatch)
    assert [line for line, rule in rules if rule == "question-heading"] == [1]


def test_file_with_more_findings_than_baseline_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "BASELINE", tmp_path / "baseline.json")
    (tmp_path / "baseline.json").write_text(json.dumps({"a.md": 1}))
    one, two = (Finding("a.md", line, RULES["nobody"], "nobody") for line in (1, 2))
    assert check.worse([one]) == []
    assert check.worse([one, two]) == [one, two]
    assert check.worse([Finding("b.md", 1, RULES["nobody"], "nobody")]), "a new file starts at zero"


def test_the_baseline_only_shrinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "BASELINE", tmp_path / "baseline.json")
    (tmp_path / "baseline.json").write_text(json.dumps({"a.md": 1, "b.md": 2, "c.md": 1}))
    now = [Finding(file, 1, RULES["nobody"], "nobody") for file in ("a.md", "a.md", "b.md", "d.md")]
    monkeypatch.setattr(check, "all_findings", lambda: now)
    assert json.loads(check.baseline_json()) == {"a.md": 1, "b.md": 1}


def test_checked_files_include_every_prose_format() -> None:
    kinds = {Path(name).suffix or Path(name).name for name in check.checked_files()}
    assert {".md", ".py", ".lua", ".j2", ".yaml", ".json", "Makefile"} <= kinds
    texts = list(texts_of(check.ROOT / "Makefile"))
    assert {text.scope for text in texts} == {Scope.PROSE}
