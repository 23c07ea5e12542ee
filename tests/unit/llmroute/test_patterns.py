"""Regular expressions of routes, converted for Lua."""

import re
import string

import pytest

from daybreak.api.llmroute.patterns import PATTERN, lua_pattern


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("team-[a-c]+", "^team%-[a-c]+$"),
        ("^v[0-9]*$", "^v[0-9]*$"),
        (r"\w+@example\.com", "^[%w_]+%@example%.com$"),
        (r"[\w.-]+", "^[%w_%.-]+$"),
        (r"[^\s]?.", "^[^%s]?.$"),
        ("[+.-]", "^[%+%.-]$"),
        (r"a\$", "^a%$$"),
        (r"50%\d", "^50%%%d$"),
        ("", "^$"),
    ],
)
def test_expression_is_converted_to_lua_pattern(expression: str, pattern: str) -> None:
    assert lua_pattern(expression) == pattern


@pytest.mark.parametrize(
    "expression",
    ["(a)", "a|b", "a{2}", "a**", "a+b+c+d+", "[", "[]", "[+-.]", r"\1", r"\b", "a^b", "*", "ü", r"(a+)+"],
)
def test_unsupported_expression_is_rejected(expression: str) -> None:
    assert not re.fullmatch(PATTERN, expression)
    with pytest.raises(ValueError, match="is no expression"):
        lua_pattern(expression)


def test_long_invalid_expression_does_not_match() -> None:
    assert not re.fullmatch(PATTERN, "a" * 127 + "(")
    assert not re.fullmatch(PATTERN, "a*" * 60 + "(")
    assert not re.fullmatch(PATTERN, "[" + string.ascii_letters * 2)
