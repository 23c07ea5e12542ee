"""Check the texts of the project by the rules in rules.toml, with a baseline of known findings.

    python -m scripts.prose.check             # fail if a file has more findings than in the baseline
    python -m scripts.prose.check FILE ...    # list all findings of the files
    python -m scripts.prose.check --count     # count the findings by area and rule

`make generate` lowers the numbers of the baseline and never raises them.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.prose.texts import Scope, texts_of

ROOT = Path(__file__).parents[2]
RULES = Path(__file__).with_name("rules.toml")
BASELINE = Path(__file__).with_name("baseline.json")
_GENERATED = re.compile(
    r"docs/(?:.*-?api|benchmarks|versions|metrics|responses)\.md|docs/decisions/README\.md"
    r"|operator/src/daybreak/gateway/variables\.md|.*request_fields\.json|charts/daybreak/README\.md"
    r"|charts/.*/crds/.*|manifests/base/.*|.*__snapshots__.*|bench/results/.*|.*\.schema\.json|.*sbom.*|scripts/prose/.*"
    r"|tests/unit/prose/.*|.*pod_schema\.json|.*engine_args\.json|requirements/.*|.*requirements\.txt"
)
"""Pattern of unchecked files: generated files, data, and files that quote forbidden words."""
_CODE = re.compile(r"``[^`]*``|`[^`]*`|\]\([^)]*\)|https?://\S+")
_AREAS = (
    "docs/decisions",
    "docs",
    "operator",
    "runtime",
    "tests",
    "e2e",
    "bench",
    "charts",
    "cluster",
    "scripts",
)


@dataclass(frozen=True)
class Rule:
    """Rule that forbids words in a scope."""

    name: str
    scope: Scope
    pattern: re.Pattern[str]
    use: str
    """Words to use instead."""

    def applies_to(self, scope: Scope) -> bool:
        """Return True if the rule applies to the scope; prose rules apply to all texts except names."""
        return self.scope is scope or (self.scope is Scope.PROSE and scope is not Scope.NAME)


@dataclass(frozen=True)
class Finding:
    """Occurrence of forbidden words in a file."""

    file: str
    line: int
    rule: Rule
    words: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.words!r}: write {self.rule.use} ({self.rule.name})"


def load_rules() -> list[Rule]:
    """Return the rules. Raises KeyError, ValueError or re.error if a rule is invalid."""
    rows = tomllib.loads(RULES.read_text())["rule"]
    return [Rule(row["name"], Scope(row["scope"]), re.compile(row["pattern"]), row["use"]) for row in rows]


def checked_files() -> list[str]:
    """Return the tracked files that the check covers."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT).split(b"\0")  # noqa: S607
    names = (name.decode() for name in listed if name)
    return [name for name in names if not _GENERATED.fullmatch(name) and (ROOT / name).is_file()]


def findings(name: str, rules: Sequence[Rule]) -> Iterator[Finding]:
    """Yield the findings of the rules in a file."""
    for scope, line, text in texts_of(ROOT / name):
        plain = text if scope is Scope.NAME else _CODE.sub("", text)
        for rule in rules:
            if rule.applies_to(scope):
                for match in rule.pattern.finditer(plain):
                    at = line + plain.count("\n", 0, match.start())
                    yield Finding(name, at, rule, match.group().strip())


def all_findings() -> list[Finding]:
    """Return the findings of the rules in all checked files."""
    rules = load_rules()
    return [each for name in checked_files() for each in findings(name, rules)]


def baseline() -> dict[str, int]:
    """Return the number of known findings by file."""
    found: dict[str, int] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    return found


def baseline_json() -> str:
    """Return the baseline as JSON, lowered to the current numbers of findings."""
    known, now = baseline(), Counter(each.file for each in all_findings())
    lowered = {
        file: min(count, known.get(file, 0)) if known else count for file, count in sorted(now.items())
    }
    return json.dumps({file: count for file, count in lowered.items() if count}, indent=0) + "\n"


def worse(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings of all files with more findings than in the baseline."""
    known, now = baseline(), Counter(each.file for each in found)
    return [each for each in found if now[each.file] > known.get(each.file, 0)]


def _table(found: Sequence[Finding]) -> str:
    areas = Counter(_area(each.file) for each in found)
    rules = Counter(each.rule.name for each in found)
    lines = [f"{area:16}{count:6}" for area, count in areas.most_common()]
    return "\n".join(
        [*lines, f"{'all':16}{len(found):6}", "", *(f"{n:24}{c:6}" for n, c in rules.most_common())]
    )


def _area(name: str) -> str:
    return next((area for area in _AREAS if name.startswith(f"{area}/")), "root")


def main() -> int:
    """Check the project, or list the findings of the given files. Return 1 if there are findings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", action="store_true", help="print findings by area and rule")
    parser.add_argument("files", nargs="*", help="files whose findings are listed")
    options = parser.parse_args()
    if options.files:
        rules = load_rules()
        found = [each for name in options.files for each in findings(name, rules)]
    else:
        found = all_findings()
        if options.count:
            print(_table(found))
            return 0
        found = worse(found)
        if found:
            print("prose: these files exceed the findings in scripts/prose/baseline.json; see docs/style.md")
    print("\n".join(map(str, found)), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
