"""The adapters that the configuration asks for, as the operator writes them into `user_config`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wanted:
    """One adapter.

    Where it comes from is one of `repository`, `bucket` and `path`.
    """

    name: str
    """What clients send as `model`."""
    id: str
    """Digest of everything else here: another one is another adapter of the same name."""
    repository: str = ""
    """A repository of the Hugging Face Hub."""
    revision: str = ""
    """Its commit, tag or branch; empty means the default branch."""
    token: str = ""
    """Name of the environment variable with the token for it; empty means the model's own, if it has one."""
    bucket: str = ""
    """An `s3://` or `gs://` address."""
    path: str = ""
    """A directory of the pod."""
    copy: bool = False
    """Whether what is in `path` may change or go away, so that a copy of it is used."""

    @property
    def place(self) -> str:
        """Where it comes from, as messages name it."""
        return self.repository or self.bucket or self.path


def read(user_config: Mapping[str, Any] | None) -> dict[str, Wanted]:
    """The adapters by name.

    Fields that a newer operator has added are left out.
    """
    entries = ((user_config or {}).get("lora") or {}).get("adapters") or []
    known = Wanted.__dataclass_fields__
    found = [Wanted(**{key: value for key, value in entry.items() if key in known}) for entry in entries]
    return {adapter.name: adapter for adapter in found}
