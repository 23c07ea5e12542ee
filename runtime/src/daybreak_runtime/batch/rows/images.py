"""Images of a row, from columns or messages, in one format.

The format is a `data:` URL: text that passes Ray Data and JSON unchanged, and that services accept.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any

from daybreak_runtime.batch.rows.row_error import RowError

_KINDS = (
    (b"\x89PNG\r\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
)
_HEAD = 24
"""Characters of base64 that identify the image type."""
_REMOTE = ("http://", "https://")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
"""URL of any scheme, also of a file or a bucket. Base64 has no colon."""


def plain(value: Any) -> str:
    """Return a value without a JSON type as text, for staging: bytes in base64, all others with `str`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)


def url(value: Any, where: str, *, remote: bool) -> str:
    """Return an image as a `data:` URL. Raises RowError if it is none.

    Args:
        value: Base64 text, a URL, or the form of Hugging Face's tables: an object with `bytes`.
        where: Location of the value, for the error.
        remote: True to keep an `http` URL: a service may read it, a local engine does not.
    """
    if isinstance(value, Mapping):
        value = value.get("bytes")
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"{where} holds no image: bytes, base64 or a data: URL are wanted")
    value = value.strip()
    if remote and value.startswith(_REMOTE):
        return str(value)
    if _ELSEWHERE.match(value):
        raise RowError(f"{where} names an image elsewhere, which is not fetched: have the image itself there")
    head, comma, content = value.rpartition(",")
    if comma and not (head.startswith("data:") and head.endswith(";base64")):
        raise RowError(f"{where} holds no image: a URL begins with data:image/...;base64,")
    kind = _kind(content)
    if kind is None:
        raise RowError(f"{where} holds no image in base64: PNG, JPEG, WebP, GIF, BMP or TIFF are known")
    return str(value) if comma else f"data:image/{kind};base64,{content}"


def content(found: str) -> bytes:
    """Return the file in a `data:` URL."""
    return base64.b64decode(found.rpartition(",")[2])


def parted(report: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return messages for chat templates, and their images in order. Raises RowError.

    An image leaves a placeholder: `{"type": "image"}`. Several texts without images are joined, because many
    templates accept no parts.
    """
    images: list[str] = []
    found: list[dict[str, Any]] = []
    for message in report:
        parts = message.get("content")  # none in a message with tool calls
        if isinstance(parts, list):
            parts = [_part(part, images) for part in parts]
            if all(part["type"] == "text" for part in parts):
                parts = "\n".join(part["text"] for part in parts)
        found.append({**message, "content": parts})
    return found, images


def _part(part: Any, images: list[str]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "image_url":
        given = part.get("image_url")
        images.append(
            url(given.get("url") if isinstance(given, Mapping) else given, "a message", remote=False)
        )
        return {"type": "image"}
    raise RowError(f"a message has a part of type {kind}: text and image_url are understood")


def _kind(content: str) -> str | None:
    try:
        begin = base64.b64decode(content[:_HEAD], validate=True)
    except (binascii.Error, ValueError):
        return None
    if begin[:4] == b"RIFF" and begin[8:12] == b"WEBP":
        return "webp"
    return next((kind for magic, kind in _KINDS if begin.startswith(magic)), None)
