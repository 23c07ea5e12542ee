"""What is known of a ConfigMap that an object names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Content:
    """What is known of a ConfigMap's content. Nothing at all where the operator may not read it."""

    digest: str = ""
    """Of its files: labels and annotations do not count. Empty: it is not known."""
    missing: bool = False
    """There is no such ConfigMap."""
    awaited: bool = False
    """It has not been looked for yet: in a moment more is known."""
