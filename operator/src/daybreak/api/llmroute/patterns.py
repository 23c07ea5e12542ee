"""Regular expressions with bounded match time, and their translation into Lua patterns of the gateway.

An expression is a sequence of single characters, each optionally repeated, without groups or alternatives.
With so few repetitions, a small power of the value's length bounds the match time, whichever client sends the
value.
"""

import re

MOST_REPEATS = 3
"""Maximum number of repetitions in one expression."""
LONGEST_VALUE = 128
"""Maximum length in bytes of a value that an expression is compared with. A longer value does not match."""

_PLAIN = r"[A-Za-z0-9 _,;:/@=~#&%!<>'\"-]"
_ESCAPED = r"\\[dwsDS.^$*+?()\[\]{}|\\/-]"
_IN_CLASS = r"(\\[dws.\[\]\\^/-]|[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _.,;:/@+*])"
_ATOM = rf"({_PLAIN}|{_ESCAPED}|\.|\[\^?{_IN_CLASS}+-?\])"
PATTERN = rf"^\^?{_ATOM}*({_ATOM}[*+?]{_ATOM}*){{0,{MOST_REPEATS}}}\$?$"
"""Regular expression that matches the supported expressions."""

_TOKEN = re.compile(rf"{_ATOM}|[*+?]")
_CLASSES = {"d": "%d", "w": "%w_", "s": "%s", "D": "%D", "S": "%S"}


def lua_pattern(expression: str) -> str:
    """Return the Lua pattern for the same complete values. Raises ValueError if unsupported."""
    if not re.fullmatch(PATTERN, expression):
        raise ValueError(f"{expression!r} is no expression of single characters and repetitions")
    inner = expression.removeprefix("^")
    if inner.endswith("$") and not inner.endswith(r"\$"):
        inner = inner[:-1]
    return "^" + "".join(_token(found.group()) for found in _TOKEN.finditer(inner)) + "$"


def _token(token: str) -> str:
    if token in ("*", "+", "?", "."):
        return token
    if token.startswith("["):
        negated = "^" if token.startswith("[^") else ""
        return f"[{negated}{_class(token[1 + len(negated) : -1])}]"
    if token.startswith("\\"):
        return _CLASSES.get(token[1]) or _literal(token[1]) if token[1] != "w" else "[%w_]"
    return _literal(token)


def _class(members: str) -> str:
    found = []
    for each in re.finditer(r"\\(.)|(.)", members):
        escaped, plain = each.groups()
        if escaped:
            found.append(_CLASSES.get(escaped) or f"%{escaped}")
        else:
            found.append(plain if plain.isalnum() or plain in "- " else f"%{plain}")
    return "".join(found)


def _literal(char: str) -> str:
    return char if char.isalnum() or char == " " else f"%{char}"
