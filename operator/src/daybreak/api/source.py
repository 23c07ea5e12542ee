"""Where a model's weights come from: one URL, read into its parts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Scheme(StrEnum):
    """The places that weights can come from."""

    HUGGING_FACE = "hf"
    S3 = "s3"
    GCS = "gs"
    CLAIM = "pvc"
    IMAGE = "image"
    FILE = "file"


SOURCE_PATTERN = r"^(hf|s3|gs|pvc|image|file)://.+$"


@dataclass(frozen=True)
class ModelSource:
    """A model source in its parts.

    `reference` is the repository (`hf`), the bucket URI (`s3`, `gs`), the claim's name (`pvc`), the
    image reference (`image`) or empty (`file`); `path` is the directory inside the claim, the image
    or the pod's file system, empty where there is none.
    """

    scheme: Scheme
    reference: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `hf://org/name`, `s3://bucket/prefix`, `gs://…`, `pvc://claim/path`,
        `image://registry/name:tag#path` or `file:///path`.

        An image's path follows `#`, since `/` and `:` both belong to the image reference.
        Raises ValueError, saying which form is expected.
        """
        scheme_text, separator, rest = text.partition("://")
        if not separator or scheme_text not in list(Scheme):
            known = ", ".join(f"{scheme.value}://" for scheme in Scheme)
            raise ValueError(f"{text!r} has no known scheme: use one of {known}")
        scheme = Scheme(scheme_text)
        match scheme:
            case Scheme.HUGGING_FACE:
                owner, slash, name = rest.partition("/")
                if not (owner and slash and name) or "/" in name:
                    raise ValueError(f"{text!r} is not a Hugging Face model: write hf://owner/name")
                return cls(scheme, rest, "")
            case Scheme.S3 | Scheme.GCS:
                bucket = rest.partition("/")[0]
                if not bucket:
                    raise ValueError(f"{text!r} names no bucket: write {scheme}://bucket/prefix")
                return cls(scheme, f"{scheme}://{rest.rstrip('/')}", "")
            case Scheme.CLAIM:
                claim, _, path = rest.partition("/")
                if not claim:
                    raise ValueError(f"{text!r} names no claim: write pvc://claim/path")
                _no_parent(text, path)
                return cls(scheme, claim, path.strip("/"))
            case Scheme.IMAGE:
                image, _, path = rest.partition("#")
                if not image:
                    raise ValueError(f"{text!r} names no image: write image://registry/name:tag#path")
                _no_parent(text, path)
                return cls(scheme, image, path.strip("/"))
            case Scheme.FILE:
                if not rest.startswith("/") or len(rest) == 1:
                    raise ValueError(f"{text!r} is not an absolute path: write file:///path")
                _no_parent(text, rest)
                return cls(scheme, "", rest.rstrip("/"))


def _no_parent(text: str, path: str) -> None:
    if ".." in path.split("/"):
        raise ValueError(f"{text!r} must not contain '..'")
