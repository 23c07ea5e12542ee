"""Columns that requests need.

A column that no row of the input has fails each row, and is reported immediately.

Only certain failures count. A template may check whether a row has a column, or use one in a branch that no
row takes. Rows that lack a column that others have fail one by one.
"""

import difflib
from collections.abc import Iterable, Iterator

from jinja2 import meta, nodes

from daybreak_runtime.batch.order import Request
from daybreak_runtime.batch.rows.reading import Row
from daybreak_runtime.batch.rows.requests import ROW, environment
from daybreak_runtime.jobs.problem import JobProblem

COLUMN_MISSING = "ColumnNotFound"
_SHOWN = 30
"""Maximum number of columns that a message lists."""
STRICT_FILTERS = (
    "capitalize",
    "count",
    "e",
    "escape",
    "float",
    "int",
    "join",
    "length",
    "list",
    "lower",
    "string",
    "title",
    "trim",
    "truncate",
    "upper",
)
"""Filters of Jinja2 that read the value, so that an undefined one is an error."""
_STRICT_COMPARISONS = frozenset(("eq", "ne", "lt", "lteq", "gt", "gteq"))
_STRICT_OPERATIONS = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Pow)


def check(request: Request, rows: Iterable[Row]) -> None:
    """Read rows until each needed column has occurred. Raises JobProblem if one never occurs."""
    desired = needed(request)
    observed: dict[str, None] = {}
    if not desired:
        return
    for row in rows:
        if row.error:
            continue
        if "body" in row.columns and "custom_id" in row.columns:
            return  # a request of a batch file, which uses no template
        observed |= dict.fromkeys(row.columns)
        if desired.keys() <= observed.keys():
            return
    if not observed:
        return  # no row can be read: each has its own error
    raise JobProblem(
        COLUMN_MISSING,
        "; ".join(
            _missing_column(*each, list(observed)) for each in desired.items() if each[0] not in observed
        ),
    )


def needed(request: Request) -> dict[str, str]:
    """Return the columns without which no request can be made, with the field of the spec that needs each."""
    found: dict[str, str] = {}
    if request.messages_column is not None:
        found[request.messages_column] = "spec.messagesColumn"
    elif request.messages:
        for number, each in enumerate(request.messages):
            found |= dict.fromkeys(of_template(each["content"]), f"spec.messages[{number}]")
    else:
        found |= dict.fromkeys(of_template(request.prompt or ""), "spec.prompt")
    found |= dict.fromkeys(request.images, "spec.images")
    if request.sampling_params_column is not None:
        found[request.sampling_params_column] = "spec.samplingParamsColumn"
    return found


def of_template(text: str) -> list[str]:
    """Return the columns without which a template fails for every row, in alphabetical order."""
    tree = environment().parse(text)
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
    variables = meta.find_undeclared_variables(tree) - own - environment().globals.keys()
    # `row` itself always exists; an item of it is meant if the name is not the template's own.
    found = {name for path, name in _of_statements(tree.body) if (path or name) in variables and name != ROW}
    return sorted(found)


_Found = Iterator[tuple[str, str]]
"""Columns, each with the variable of which it is an item: `row`, or none if it is a variable itself."""


def _of_statements(statements: Iterable[nodes.Node]) -> _Found:
    for each in statements:
        match each:
            case nodes.Output():
                for part in each.nodes:
                    yield from _used(part)
            case nodes.If():
                yield from _used(each.test)
            case nodes.For():
                yield from _used(each.iter)
            case nodes.Assign():
                yield from _evaluated(each.node)


def _used(expression: nodes.Node) -> _Found:
    """Yield the columns that must exist if the value is read: written, iterated or tested for truth."""
    match expression:
        case nodes.Name():
            yield "", expression.name
        case nodes.Getattr(node=nodes.Name(name="row"), attr=str(key)) if not hasattr(dict, key):
            yield ROW, key
        case nodes.Getitem(node=nodes.Name(name="row"), arg=nodes.Const(value=str(key))) if not hasattr(
            dict, key
        ):
            yield ROW, key
        case _:
            yield from _evaluated(expression)


def _evaluated(expression: nodes.Node) -> _Found:
    """Yield the columns that must exist so that the expression has a value, which may be undefined."""
    match expression:
        case nodes.Getattr() | nodes.Getitem():
            yield from _used(expression.node)
        case nodes.Call():
            yield from _used(expression.node)
            for argument in expression.args:
                yield from _evaluated(argument)
        case nodes.Filter(node=nodes.Node() as value) if expression.name in STRICT_FILTERS:
            yield from _used(value)
        case nodes.And() | nodes.Or():
            yield from _used(expression.left)
        case nodes.CondExpr():
            yield from _used(expression.test)
        case nodes.Concat():
            for part in expression.nodes:
                yield from _used(part)
        case nodes.Compare() if expression.ops[0].op in _STRICT_COMPARISONS:
            yield from _used(expression.expr)
            yield from _used(expression.ops[0].expr)
        case nodes.UnaryExpr():
            yield from _used(expression.node)
        case nodes.BinExpr() if isinstance(expression, _STRICT_OPERATIONS):
            yield from _used(expression.left)
            yield from _used(expression.right)


def _missing_column(name: str, field: str, columns: list[str]) -> str:
    near = difflib.get_close_matches(name, columns, 1)
    more = len(columns) - _SHOWN
    there = ", ".join(columns[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    nearest = f"; the nearest is {near[0]}" if near else ""
    return f"{field}: no row has a column {name}; there are {there or 'none'}{nearest}"
