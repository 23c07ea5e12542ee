"""Sources of a model's weights: one URL, parsed into its parts."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue

from daybreak.api.schema.base import Rule
from daybreak.api.schema.scalars import DNS_SUBDOMAIN, VALIDATIONS

SOURCE_LENGTH = 1024
"""Maximum length of a source, in characters."""


class Scheme(StrEnum):
    """Schemes of sources for weights."""

    HUGGING_FACE = "hf"
    S3 = "s3"
    GCS = "gs"
    CLAIM = "pvc"
    IMAGE = "image"
    FILE = "file"


USE_ONE_OF = "use one of " + ", ".join(f"{scheme}://" for scheme in Scheme)
SOURCE_PATTERN = rf"^({'|'.join(Scheme)})://[!-~]+$"


@dataclass(frozen=True)
class Form:
    """Syntax of a source with one scheme."""

    pattern: str
    """Pattern of the part after `scheme://`, for the regular expressions of Python and Go."""
    desired: str
    """Description of the form, which ends a message."""


# Printable ASCII only, because Python and Go define white space differently.
_ANY = "[!-~]"
_SEGMENT = "[A-Za-z0-9][A-Za-z0-9._-]*"
_BUCKET = rf"[A-Za-z0-9][!-.0-~]*(/{_ANY}*)?"

FORMS = {
    Scheme.HUGGING_FACE: Form(rf"{_SEGMENT}/{_SEGMENT}", "a Hugging Face model is written hf://owner/name"),
    Scheme.S3: Form(_BUCKET, "a bucket is written s3://bucket/prefix"),
    Scheme.GCS: Form(_BUCKET, "a bucket is written gs://bucket/prefix"),
    Scheme.CLAIM: Form(rf"{DNS_SUBDOMAIN}(/{_ANY}*)?", "a PersistentVolumeClaim is written pvc://claim/path"),
    Scheme.IMAGE: Form(
        rf"""[A-Za-z0-9][!-"$-~]*(#{_ANY}*)?""", "an image is written image://registry/name:tag#path"
    ),
    Scheme.FILE: Form(rf"/+[!-.0-~]{_ANY}*", "a path in the Ray image is written file:///path"),
}
"""Form of each scheme. The path in an image follows `#`, because `/` and `:` are part of an image
reference."""

_WITH_PATH = (Scheme.CLAIM, Scheme.IMAGE, Scheme.FILE)
_PARENT = r"(^|[/#])\.\.(/|$)"
_NO_PARENT = "a path must not contain '..'"


@dataclass(frozen=True)
class ModelSource:
    """Model source in its parts.

    `reference` is the repository (`hf`), the bucket URI (`s3`, `gs`), the name of the PVC (`pvc`), the image
    reference (`image`) or empty (`file`). `path` is the directory inside the PVC, the image or the pod's file
    system. It is empty if there is none.
    """

    scheme: Scheme
    reference: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a source.

        The forms are `hf://org/name`, `s3://bucket/prefix`, `gs://bucket/prefix`, `pvc://claim/path`,
        `image://registry/name:tag#path` and `file:///path`.

        Raises ValueError with the expected form.
        """
        scheme_text, separator, rest = text.partition("://")
        if not separator or scheme_text not in list(Scheme):
            raise ValueError(f"{text!r} has no known scheme: {USE_ONE_OF}")
        scheme = Scheme(scheme_text)
        if not re.fullmatch(FORMS[scheme].pattern, rest):
            raise ValueError(f"{text!r} does not fit: {FORMS[scheme].desired}")
        if scheme in _WITH_PATH and re.search(_PARENT, rest):
            raise ValueError(f"{text!r} does not fit: {_NO_PARENT}")
        match scheme:
            case Scheme.HUGGING_FACE:
                return cls(scheme, rest, "")
            case Scheme.S3 | Scheme.GCS:
                return cls(scheme, f"{scheme}://{rest.rstrip('/')}", "")
            case Scheme.CLAIM:
                claim, _, path = rest.partition("/")
                return cls(scheme, claim, path.strip("/"))
            case Scheme.IMAGE:
                image, _, path = rest.partition("#")
                return cls(scheme, image, path.strip("/"))
            case Scheme.FILE:
                return cls(scheme, "", rest.rstrip("/"))


def _checked_source(text: str) -> str:
    if len(text) > SOURCE_LENGTH:
        raise ValueError(f"a source has at most {SOURCE_LENGTH} characters")
    ModelSource.parse(text)
    return text


def _cel_rules() -> list[JsonValue]:
    """Return CEL rules with which the API server checks the same forms."""
    known = rf"self.matches('^({'|'.join(Scheme)})://')"
    rules: list[JsonValue] = [{"rule": known, "message": USE_ONE_OF}]
    for scheme, form in FORMS.items():
        start = f"{scheme}://"
        rule = f"!self.startsWith('{start}') || self.matches(r'^{start}{form.pattern}$')"
        rules.append({"rule": rule, "message": form.desired})
    with_path = " || ".join(f"self.startsWith('{scheme}://')" for scheme in _WITH_PATH)
    rules.append({"rule": f"!({with_path}) || !self.matches(r'{_PARENT}')", "message": _NO_PARENT})
    return rules


Source = Annotated[
    str,
    AfterValidator(_checked_source),
    Field(
        json_schema_extra={
            "pattern": SOURCE_PATTERN,
            "maxLength": SOURCE_LENGTH,
            VALIDATIONS: _cel_rules(),
        }
    ),
]
"""Model source in its written form."""

OF_THE_HUB = (
    Rule(
        "!has(self.token) || self.source.startsWith('hf://')",
        "token requires an hf:// source; s3:// and gs:// use runtime.env or runtime.serviceAccountName",
        lambda self: self.token is None or self.source.startswith("hf://"),
    ),
    Rule(
        "!has(self.revision) || self.source.startsWith('hf://')",
        "revision requires an hf:// source",
        lambda self: self.revision is None or self.source.startswith("hf://"),
    ),
)
"""Rules of every type with a `source`, a `token` and a `revision`."""
