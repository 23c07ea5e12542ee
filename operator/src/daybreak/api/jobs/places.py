"""Locations of files that a job reads and writes: a PVC, a bucket, or a path in its pod."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from daybreak.api.common import volume_names
from daybreak.api.schema.scalars import DNS_SUBDOMAIN, VALIDATIONS

PLACE_LENGTH = 1024
"""Maximum length of a location in characters."""
_CLAIM = "pvc://"
_CLAIM_FORM = rf"pvc://{DNS_SUBDOMAIN}/[!-~]+"
_BUCKET_FORM = "(s3|gs)://[A-Za-z0-9][A-Za-z0-9._-]*/[!-~]+"
_PARENT = r"/\.\.(/|$)"
_NO_PARENT = "a path must not contain '..'"


@dataclass(frozen=True)
class _Form:
    """Format of locations."""

    holds: str
    """Content of the location, as named in messages."""
    pattern: str
    desired: str
    """Accepted forms, for messages."""

    def check(self, text: str) -> str:
        """Return the location if it is valid. Raises ValueError otherwise."""
        if not re.match(self.pattern, text):
            raise ValueError(f"{text!r} is no place for {self.holds}: {self.desired}")
        if re.search(_PARENT, text):
            raise ValueError(_NO_PARENT)
        return text

    def schema(self) -> dict[str, JsonValue]:
        """Return the format as a JSON schema with validation rules for the API server."""
        return {
            "pattern": self.pattern,
            VALIDATIONS: [
                {"rule": f"self.matches(r'{self.pattern}')", "message": self.desired},
                {"rule": f"!self.matches(r'{_PARENT}')", "message": _NO_PARENT},
            ],
        }


_ROWS = _Form(
    "rows",
    rf"^({_CLAIM_FORM}|file:///[!-~]+|{_BUCKET_FORM})$",
    "write pvc://claim/path, file:///path (of the head pod), s3://bucket/prefix or gs://bucket/prefix",
)
_SHARED = rf"^({_CLAIM_FORM}|{_BUCKET_FORM})$"
_SHARED_WANTED = "write pvc://claim/path, s3://bucket/prefix or gs://bucket/prefix"
_REPORT = _Form("a report", _SHARED, _SHARED_WANTED)
_TABLE = _Form("a table", _SHARED, _SHARED_WANTED)

PlaceUri = Annotated[
    str,
    AfterValidator(_ROWS.check),
    Field(max_length=PLACE_LENGTH, json_schema_extra=_ROWS.schema()),
]
"""Location of rows."""

FolderUri = Annotated[
    str,
    AfterValidator(_REPORT.check),
    Field(max_length=PLACE_LENGTH, json_schema_extra=_REPORT.schema()),
]
"""Destination of a report."""

TableUri = Annotated[
    str,
    AfterValidator(_TABLE.check),
    Field(max_length=PLACE_LENGTH, json_schema_extra=_TABLE.schema()),
]
"""Location of a table, which is one file or a folder of files."""


def claim_of(uri: str) -> tuple[str, str] | None:
    """Return the PVC and the path of a `pvc://` location, or None for other locations."""
    if not uri.startswith(_CLAIM):
        return None
    claim, _, path = uri.removeprefix(_CLAIM).partition("/")
    return claim, path


def in_pod(uri: str) -> str:
    """Return the location as seen by a pod that mounts the PVC."""
    found = claim_of(uri)
    return uri if found is None else f"file://{volume_names.rows_directory(found[0])}/{found[1].strip('/')}"
