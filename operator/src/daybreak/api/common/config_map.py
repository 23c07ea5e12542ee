"""State of a ConfigMap that an object names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Content:
    """Known state of a ConfigMap's content.

    All fields keep their defaults if the operator may not read it.
    """

    digest: str = ""
    """Digest of the ConfigMap's files, without labels and annotations. Empty if unknown."""
    missing: bool = False
    """True if the ConfigMap does not exist."""
    awaited: bool = False
    """True if the ConfigMap has not been read yet; its state is known shortly after."""
