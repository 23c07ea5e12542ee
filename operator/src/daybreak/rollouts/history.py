"""The revisions of a workload at one moment: which one it is built of, and which one a person asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, mapping, text
from daybreak.api.gates.rollout import OnFailure, RolloutStrategy
from daybreak.rollouts.machine import ENDED, RolloutState, Wish
from daybreak.rollouts.record import state_of
from daybreak.rollouts.revisions import Revision


class Rules(Protocol):
    """What a spec says of changes."""

    @property
    def strategy(self) -> RolloutStrategy:
        """How they are rolled out."""
        ...

    @property
    def on_failure(self) -> OnFailure:
        """What comes of one that cannot start."""
        ...

    @property
    def deadline(self) -> str:
        """How long one may take."""
        ...

    @property
    def paused(self) -> bool:
        """Whether none is begun."""
        ...

    @property
    def revision(self) -> int | None:
        """Number of the revision that is run instead of what the spec says; None: none is."""
        ...

    @property
    def revision_history_limit(self) -> int:
        """How many revisions are kept that are not in use."""
        ...


@dataclass(frozen=True)
class History:
    """The revisions that are kept of a workload, as one reconcile goes by them."""

    manifest: Manifest
    """The workload itself: its annotations, and the status as memory."""
    rollout: Rules
    """What its spec says of changes."""
    own: Revision
    """The revision that its spec asks for."""
    revisions: tuple[Revision, ...]
    """Those that are kept, the oldest first; `own` is among them."""
    as_written: bool = True
    """Whether it is built as its spec is written."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Why a revision cannot be made again, by its name; only of those that cannot."""

    @cached_property
    def state(self) -> RolloutState | None:
        """What was decided of the last change; None: nothing yet."""
        return state_of(mapping(self.manifest.get("status")))

    @cached_property
    def built(self) -> Revision | None:
        """The one that the workload is built of; None: its content is not known any more."""
        if self.as_written or self.state is None:
            return self.own
        return self.named(self.state.current_revision)

    @cached_property
    def wanted(self) -> Revision | None:
        """The one that is asked for: by the spec, or by its number."""
        if self._pin is None:
            return self.own
        return self.named(self._pin) or self.built

    @cached_property
    def known(self) -> frozenset[str]:
        """Names of those that it could be built of."""
        return frozenset(each.name for each in self.revisions if each.name not in self.lost)

    @property
    def next(self) -> tuple[Revision, ...]:
        """Those to which it may turn: what that takes is worth finding out."""
        state = self.state
        if self.built is None or (self.wanted == self.built and (state is None or state.phase in ENDED)):
            return ()
        ways = {self.wanted.name if self.wanted is not None else None}
        ways |= {state.last_successful_revision if state is not None else None}
        return tuple(each for each in self.revisions if each.name in ways and each != self.built)

    @property
    def in_use(self) -> frozenset[str]:
        """Names of the revisions that are needed, whatever else is kept."""
        state = self.state
        found = {each.name for each in (self.own, self.built, self.wanted) if each is not None}
        if state is not None:
            found |= {
                each
                for each in (
                    state.current_revision,
                    state.target_revision,
                    state.last_successful_revision,
                    state.failed_revision,
                )
                if each
            }
        return frozenset(found)

    @property
    def refused(self) -> str:
        """Why the revision that is asked for by its number cannot be; empty: it can, or none is."""
        if self._pin is None:
            return ""
        pinned = self.named(self._pin)
        if pinned is None:
            there = ", ".join(str(each.number) for each in self.revisions)
            return f"spec.rollout.revision: there is no revision {self._pin}; those that are kept are {there}"
        why = self.lost.get(pinned.name)
        return f"spec.rollout.revision: revision {self._pin} cannot be made again: {why}" if why else ""

    @property
    def paused(self) -> bool:
        """Whether a person has paused rollouts."""
        annotated = text(self._annotations.get(names.ROLLOUT_PAUSED_ANNOTATION))
        return annotated.lower() == "true" or self.rollout.paused

    @property
    def wish(self) -> Wish | None:
        """What the person wants; None: what that would be is not known."""
        if self.wanted is None:
            return None
        return Wish(
            self.wanted.name,
            self.rollout.strategy,
            self.rollout.on_failure,
            paused=self.paused,
            refused=self.refused,
        )

    def named(self, name: str | int) -> Revision | None:
        """The revision of that name, or number."""
        return next((each for each in self.revisions if name in (each.name, each.number)), None)

    @property
    def _annotations(self) -> Mapping[str, object]:
        return at(self.manifest, "metadata", "annotations")

    @property
    def _pin(self) -> int | None:
        annotated = text(self._annotations.get(names.ROLLOUT_REVISION_ANNOTATION))
        return int(annotated) if annotated.isdecimal() else self.rollout.revision
