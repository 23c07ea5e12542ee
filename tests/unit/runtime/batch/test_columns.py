"""Missing columns: reported before an engine starts, and only if every row would fail."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from daybreak.api.llmbatch.status import BatchReason
from daybreak_runtime.batch.order import Request
from daybreak_runtime.batch.rows import columns
from daybreak_runtime.batch.rows.columns import STRICT_FILTERS, check, of_template
from daybreak_runtime.batch.rows.reading import Row
from daybreak_runtime.batch.rows.requests import render
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.jobs.problem import JobProblem

NEEDED: Mapping[str, list[str]] = {
    "Say {{ x }}": ["x"],
    "{{ x }}{{ y }}": ["x", "y"],
    "{{ x.name }}": ["x"],
    "{{ x[0] }}": ["x"],
    "{{ x.strip() }}": ["x"],
    "{{ row.x }}": ["x"],
    "{{ row['odd name'] }}": ["odd name"],
    "{{ row.x | trim }}": ["x"],
    "{% if x %}a{% endif %}": ["x"],
    "{% if x == 'a' %}a{% endif %}": ["x"],
    "{% if not x %}a{% endif %}": ["x"],
    "{% for each in x %}{{ each }}{% endfor %}": ["x"],
    "{{ x or 'a' }}": ["x"],
    "{{ 'a' if x else 'b' }}": ["x"],
    "{{ 'a' ~ x }}": ["x"],
    "{{ 'a' + x }}": ["x"],
    "{% set y = x | trim %}{{ y }}": ["x"],
    "{% set y = 'a' %}{{ y }}{{ x }}": ["x"],
    **{f"{{{{ x | {name} }}}}": ["x"] for name in STRICT_FILTERS},
}
"""Templates that fail without these columns, whatever other columns exist."""
NOT_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "{% if x is defined %}{{ x }}{% endif %}": {},
    "{% if x is not defined %}a{% else %}{{ x }}{% endif %}": {},
    "{{ x | default('a') }}": {},
    "{{ x | d('a') | upper }}": {},
    "{{ row.x | default('a') }}": {},
    "{{ row.get('x') }}": {},
    "{% for name, value in row.items() %}{{ name }}{% endfor %}": {},
    "{{ row['items'] }}": {},
    "{% if 'x' in row %}{{ x }}{% endif %}": {},
    "{% if q %}a{% else %}{{ x }}{% endif %}": {"q": 1},
    "{% for each in q %}{{ x }}{% endfor %}": {"q": []},
    "{{ q or x }}": {"q": 1},
    "{{ x if q else 'a' }}": {"q": 0},
    "{% if x is string %}{{ x }}{% endif %}": {},
    "{% if q is none or x %}a{% endif %}": {"q": None},
    "{% set x = 'a' %}{{ x }}": {},
    "{% set row = {'x': 1} %}{{ row.x }}": {},
    "{% for x in range(3) %}{{ loop.index }}{{ x }}{% endfor %}": {},
    "{% macro say(x) %}{{ x }}{% endmacro %}{{ say(1) }}": {},
    "{% with x = 1 %}{{ x }}{% endwith %}": {},
    "{{ [x] | length }}": {},
    "no variable": {},
}
"""Templates that do not fail, with these columns."""


@pytest.mark.parametrize("template", NEEDED)
def test_template_fails_without_its_needed_columns(template: str) -> None:
    assert of_template(template) == NEEDED[template]
    with pytest.raises(RowError, match=r"is undefined|has no attribute"):
        render(template, {"q": "a"})


@pytest.mark.parametrize("template", NOT_NEEDED)
def test_column_is_not_needed_if_template_renders_without_column(template: str) -> None:
    render(template, NOT_NEEDED[template])
    assert "x" not in of_template(template)


def read(*rows: Mapping[str, Any]) -> Iterator[Row]:
    yield from (Row(number, each) for number, each in enumerate(rows))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request(prompt="{{ quesiton }}"), "spec.prompt"),
        (Request(messages=({"role": "user", "content": "a"}, {"role": "user", "content": "{{ quesiton }}"})),
         "spec.messages[1]"),
        (Request(messages_column="quesiton"), "spec.messagesColumn"),
        (Request(prompt="a", sampling_params_column="quesiton"), "spec.samplingParamsColumn"),
        (Request(prompt="a", images=("quesiton",)), "spec.images"),
    ],
)  # fmt: skip
def test_column_missing_in_all_rows_is_reported_with_existing_columns(request_: Request, field: str) -> None:
    with pytest.raises(JobProblem) as found:
        check(request_, read({"n": 1}, {"n": 2, "question": "a"}))
    assert found.value.reason == "ColumnNotFound"
    assert found.value.message == (
        f"{field}: no row has a column quesiton; there are n, question; the nearest is question"
    )


def test_each_missing_column_is_reported() -> None:
    with pytest.raises(JobProblem) as found:
        check(Request(prompt="{{ a }}{{ n }}{{ zzz }}"), read({"n": 1}))
    assert found.value.message == (
        "spec.prompt: no row has a column a; there are n; spec.prompt: no row has a column zzz; there are n"
    )


def test_error_lists_only_some_of_many_columns() -> None:
    with pytest.raises(JobProblem, match="column_29 and 70 more"):
        check(Request(prompt="{{ other }}"), read({f"column_{n}": n for n in range(100)}))


def test_check_stops_reading_when_needed_columns_are_found() -> None:
    def rows() -> Iterator[Row]:
        yield Row(0, {}, "broken")
        yield from (Row(n, {"n": n}) for n in range(1, 2000))
        yield Row(2000, {"n": 1, "q": None})
        raise AssertionError("read on")

    check(Request(prompt="{{ q }} {{ n }}"), rows())


def test_template_without_columns_reads_no_rows() -> None:
    def rows() -> Iterator[Row]:
        raise AssertionError("read")
        yield

    check(Request(prompt="Say a word."), rows())


@pytest.mark.parametrize("rows", [[], [Row(0, {}, "broken")], [Row(0, {"custom_id": "a", "body": {}})]])
def test_no_column_is_missing_if_no_row_uses_the_template(rows: list[Row]) -> None:
    check(Request(prompt="{{ q }}"), rows)


def test_missing_column_reason_matches_the_operators_reason() -> None:
    assert BatchReason.COLUMN_NOT_FOUND == columns.COLUMN_MISSING
