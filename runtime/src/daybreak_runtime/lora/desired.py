"""Desired adapters, as the operator writes them into `user_config`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DesiredAdapter:
    """Desired adapter.

    Its source is one of `repository`, `bucket` and `path`.
    """

    name: str
    """Model name that clients send."""
    id: str
    """Digest of all other fields: another digest is another adapter of the same name."""
    repository: str = ""
    """Repository of the Hugging Face Hub."""
    revision: str = ""
    """Commit, tag or branch of the repository. Defaults to the default branch."""
    token: str = ""
    """Name of the environment variable with the repository's token. Defaults to the model's own, if it has
    one."""
    bucket: str = ""
    """Address with `s3://` or `gs://`."""
    path: str = ""
    """Directory of the pod."""
    copy: bool = False
    """True if the content of `path` may change or disappear, so that a copy of it is used."""

    @property
    def place(self) -> str:
        """Source of the adapter, as messages name it."""
        return self.repository or self.bucket or self.path


def read(user_config: Mapping[str, Any] | None) -> dict[str, DesiredAdapter]:
    """Return the adapters by name.

    Fields of a newer operator are ignored.
    """
    entries = ((user_config or {}).get("lora") or {}).get("adapters") or []
    known = DesiredAdapter.__dataclass_fields__
    found = [
        DesiredAdapter(**{key: value for key, value in entry.items() if key in known}) for entry in entries
    ]
    return {adapter.name: adapter for adapter in found}
