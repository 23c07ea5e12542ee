"""The revisions of a workload at one time: the one that it is built of, and the requested one."""

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
    """Rollout settings of a spec."""

    @property
    def strategy(self) -> RolloutStrategy:
        """Strategy of rollouts."""
        ...

    @property
    def on_failure(self) -> OnFailure:
        """Action after a revision that cannot start."""
        ...

    @property
    def deadline(self) -> str:
        """Maximum duration of a rollout."""
        ...

    @property
    def paused(self) -> bool:
        """True if no rollout is started."""
        ...

    @property
    def revision(self) -> int | None:
        """Number of the revision that runs instead of the spec, or None if no revision is pinned."""
        ...

    @property
    def revision_history_limit(self) -> int:
        """Number of unused revisions that are kept."""
        ...


@dataclass(frozen=True)
class History:
    """The kept revisions of a workload, as one reconcile uses them."""

    manifest: Manifest
    """The workload: its annotations, and its status as memory."""
    rollout: Rules
    """Rollout settings of the spec."""
    own: Revision
    """The revision of the spec."""
    revisions: tuple[Revision, ...]
    """The kept revisions, oldest first, including `own`."""
    as_written: bool = True
    """True if the workload is built as its spec is written."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Reason for each revision that cannot be recreated, by name."""

    @cached_property
    def state(self) -> RolloutState | None:
        """The last decision on a rollout, or None if there is none yet."""
        return state_of(mapping(self.manifest.get("status")))

    @cached_property
    def built(self) -> Revision | None:
        """The revision that the workload is built of, or None if its content is no longer known."""
        if self.as_written or self.state is None:
            return self.own
        return self.named(self.state.current_revision)

    @cached_property
    def desired(self) -> Revision | None:
        """The revision that is requested by the spec, or by its number."""
        if self._pin is None:
            return self.own
        return self.named(self._pin) or self.built

    @cached_property
    def known(self) -> frozenset[str]:
        """Names of the revisions that the workload could be built of."""
        return frozenset(each.name for each in self.revisions if each.name not in self.lost)

    @property
    def next(self) -> tuple[Revision, ...]:
        """Revisions to which the workload may change, so that the changes to them must be computed."""
        state = self.state
        if self.built is None or (self.desired == self.built and (state is None or state.phase in ENDED)):
            return ()
        ways = {self.desired.name if self.desired is not None else None}
        ways |= {state.last_successful_revision if state is not None else None}
        return tuple(each for each in self.revisions if each.name in ways and each != self.built)

    @property
    def in_use(self) -> frozenset[str]:
        """Names of the revisions that are needed, regardless of the history limit."""
        state = self.state
        found = {each.name for each in (self.own, self.built, self.desired) if each is not None}
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
        """Reason why the pinned revision cannot run. Empty if it can, or if no revision is pinned."""
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
        """True if an administrator has paused rollouts."""
        annotated = text(self._annotations.get(names.ROLLOUT_PAUSED_ANNOTATION))
        return annotated.lower() == "true" or self.rollout.paused

    @property
    def wish(self) -> Wish | None:
        """The rollout request of the spec, or None if its revision is unknown."""
        if self.desired is None:
            return None
        return Wish(
            self.desired.name,
            self.rollout.strategy,
            self.rollout.on_failure,
            paused=self.paused,
            refused=self.refused,
        )

    def named(self, name: str | int) -> Revision | None:
        """Return the revision with a name or number, or None."""
        return next((each for each in self.revisions if name in (each.name, each.number)), None)

    @property
    def _annotations(self) -> Mapping[str, object]:
        return at(self.manifest, "metadata", "annotations")

    @property
    def _pin(self) -> int | None:
        annotated = text(self._annotations.get(names.ROLLOUT_REVISION_ANNOTATION))
        return int(annotated) if annotated.isdecimal() else self.rollout.revision
