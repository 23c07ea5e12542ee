r"""Text of JSON that UTF-8 cannot encode, and values that are nested too deeply.

JSON may escape half of a surrogate pair (`\\ud83d`): software that cuts text by UTF-16 units writes it.
Python reads it into a string that no file, Arrow array or tokenizer accepts.
"""

from typing import Any

DEPTH_LIMIT = 200
"""Maximum nesting of a value. Python's JSON functions fail at about 1000, less the depth of their caller."""


def encode_utf8(text: str) -> bytes:
    """Encode text; each half of a surrogate pair becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return replace_surrogates(text).encode()


def replace_surrogates(text: str) -> str:
    """Join halves of surrogate pairs that meet, and replace each other one by U+FFFD."""
    if is_utf8(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def replace_in_value(value: Any) -> Any:
    """Replace surrogates in every text of a JSON value, names included."""
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {replace_in_value(name): replace_in_value(each) for name, each in value.items()}
        case list():
            return [replace_in_value(each) for each in value]
    return value


def is_utf8(text: str) -> bool:
    """Return True if UTF-8 can encode the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_surrogate(value: Any) -> bool:
    """Return True if a text of a JSON value, or a name in it, holds half of a surrogate pair."""
    match value:
        case str():
            return not is_utf8(value)
        case dict():
            return any(find_surrogate(name) or find_surrogate(each) for name, each in value.items())
        case list():
            return any(find_surrogate(each) for each in value)
    return False


def is_too_deep(value: Any, limit: int = DEPTH_LIMIT) -> bool:
    """Return True if a JSON value is nested more deeply than the limit."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
