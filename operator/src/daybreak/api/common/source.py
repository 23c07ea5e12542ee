"""Sources of a model's weights: one URL, parsed into its parts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, JsonValue
from pydantic.config import JsonDict

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
    OLLAMA = "ollama"
    MLFLOW = "mlflow"


Registry = Literal[Scheme.OLLAMA, Scheme.MLFLOW]
"""Scheme of a registry that only one engine of a ModelServer reads."""
REGISTRIES: tuple[Registry, ...] = get_args(Registry)
"""Schemes of all registries."""
WEIGHTS = tuple(scheme for scheme in Scheme if scheme not in REGISTRIES)
"""Schemes of weights, which Daybreak passes to any engine."""
_REGISTRY_NEEDS = "requires a ModelServer with engine"


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
    Scheme.OLLAMA: Form(
        rf"{_SEGMENT}(/{_SEGMENT})?(:{_SEGMENT})?", "a model of Ollama's library is written ollama://name:tag"
    ),
    Scheme.MLFLOW: Form(
        rf"{_SEGMENT}(/[1-9][0-9]*|@{_SEGMENT})",
        "a model of MLflow's registry is written mlflow://name/version or mlflow://name@alias",
    ),
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
    reference (`image`), the name in the registry (`ollama`, `mlflow`) or empty (`file`). `path` is the
    directory inside the PVC, the image or the pod's file system. It is empty if there is none.
    """

    scheme: Scheme
    reference: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a source.

        The forms are `hf://org/name`, `s3://bucket/prefix`, `gs://bucket/prefix`, `pvc://claim/path`,
        `image://registry/name:tag#path`, `file:///path`, `ollama://name:tag` and `mlflow://name/version`.

        Raises ValueError with the expected form.
        """
        scheme_text, separator, rest = text.partition("://")
        if not separator or scheme_text not in list(Scheme):
            raise ValueError(f"{text!r} has no known scheme: {_one_of(Scheme)}")
        scheme = Scheme(scheme_text)
        if not re.fullmatch(FORMS[scheme].pattern, rest):
            raise ValueError(f"{text!r} does not fit: {FORMS[scheme].desired}")
        if scheme in _WITH_PATH and re.search(_PARENT, rest):
            raise ValueError(f"{text!r} does not fit: {_NO_PARENT}")
        match scheme:
            case Scheme.HUGGING_FACE | Scheme.OLLAMA | Scheme.MLFLOW:
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


def _one_of(schemes: Iterable[Scheme]) -> str:
    return "use one of " + ", ".join(f"{scheme}://" for scheme in schemes)


def _checked_source(text: str) -> str:
    if len(text) > SOURCE_LENGTH:
        raise ValueError(f"a source has at most {SOURCE_LENGTH} characters")
    ModelSource.parse(text)
    return text


def _checked_weights(text: str) -> str:
    scheme = text.partition("://")[0]
    if scheme in REGISTRIES:
        raise ValueError(f"{text!r} {_REGISTRY_NEEDS} {scheme}: {_one_of(WEIGHTS)}")
    return _checked_source(text)


def _cel_rules(schemes: Sequence[Scheme]) -> list[JsonValue]:
    """Return CEL rules with which the API server checks the same forms."""
    known = rf"self.matches('^({'|'.join(schemes)})://')"
    rules: list[JsonValue] = [{"rule": known, "message": _one_of(schemes)}]
    for scheme in schemes:
        start, form = f"{scheme}://", FORMS[scheme]
        rule = f"!self.startsWith('{start}') || self.matches(r'^{start}{form.pattern}$')"
        rules.append({"rule": rule, "message": form.desired})
    with_path = " || ".join(f"self.startsWith('{scheme}://')" for scheme in _WITH_PATH)
    rules.append({"rule": f"!({with_path}) || !self.matches(r'{_PARENT}')", "message": _NO_PARENT})
    return rules


def _schema(schemes: Sequence[Scheme]) -> JsonDict:
    """Return the schema of a source with one of these schemes."""
    return {
        "pattern": rf"^({'|'.join(schemes)})://[!-~]+$",
        "maxLength": SOURCE_LENGTH,
        VALIDATIONS: _cel_rules(schemes),
    }


Source = Annotated[str, AfterValidator(_checked_weights), Field(json_schema_extra=_schema(WEIGHTS))]
"""Source of weights in its written form."""
EngineSource = Annotated[
    str, AfterValidator(_checked_source), Field(json_schema_extra=_schema(tuple(Scheme)))
]
"""Source of a ModelServer's model: weights, or a registry that the engine reads."""

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
