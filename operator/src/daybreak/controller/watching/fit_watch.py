"""Objects that a change of nodes concerns: those with a changed result of the fit check.

With autoscaled nodes, nodes appear, disappear and change labels all the time. Of thousands of objects only a
few are concerned, and a reconcile of each would be an expensive check. Most objects share a few questions.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from daybreak.manifests.keys import Key
from daybreak.scheduling import fit
from daybreak.scheduling.fit import Question
from daybreak.scheduling.nodes import Node

TURN_SECONDS = 0.02
"""Maximum time in seconds to evaluate questions before the event loop continues with other tasks."""


class Subject(Protocol):
    """An object at one point in time."""

    @property
    def uid(self) -> str:
        """UID, which distinguishes objects of the same name."""

    @property
    def generation(self) -> int:
        """Generation of the object's spec."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True, slots=True)
class _FitResult:
    """Result of the fit check at the last observation of an object."""

    about: tuple[Any, ...]
    """UID and generation of the object."""
    nodes: tuple[Node, ...] | None
    """Nodes of the check; None if they were unknown."""
    answers: tuple[tuple[Question, str], ...]


class FitWatch:
    """Stores the result of the fit check per object, in terms of questions that many objects share."""

    def __init__(self) -> None:
        self._reported: dict[Key, _FitResult] = {}
        self._questions: WeakValueDictionary[Any, Question] = WeakValueDictionary()
        """One instance of each question that any object uses."""

    def note(
        self,
        key: Key,
        subject: S | None,
        nodes: tuple[Node, ...] | None,
        questions: Callable[[S], Sequence[Question]],
    ) -> None:
        """Record the fit check of an observed object.

        Args:
            key: Key of the object.
            subject: Content of the object's manifest; None if it is not checked.
            nodes: The nodes; None if they are unknown.
            questions: Returns the object's questions.
        """
        if subject is None:
            self.forget(key)
            return
        about = subject.uid, subject.generation
        before = self._reported.get(key)
        if before is not None and before.about == about and before.nodes is nodes:
            return
        requested = [self._questions.setdefault(each.key, each) for each in questions(subject)]
        answers = tuple((each, "" if nodes is None else fit.answer(each, nodes)) for each in requested)
        self._reported[key] = _FitResult(about, nodes, answers)

    def forget(self, key: Key) -> None:
        """Drop the record of a deleted object."""
        self._reported.pop(key, None)

    async def concerned(self, nodes: tuple[Node, ...] | None) -> Collection[Key]:
        """Return the objects whose fit check has another result with these nodes."""
        if nodes is None:
            return [key for key, reported in self._reported.items() if reported.nodes is not None]
        now: dict[Question, str] = {}
        began = time.monotonic()
        for question in {
            question for reported in self._reported.values() for question, _ in reported.answers
        }:
            now[question] = fit.answer(question, nodes)
            if time.monotonic() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = time.monotonic()
        found = []
        for key, reported in self._reported.items():
            if reported.nodes is None or any(
                now.get(each, message) != message for each, message in reported.answers
            ):
                found.append(key)
            else:
                # Replace the nodes, so that no old list is kept longer than needed.
                self._reported[key] = replace(reported, nodes=nodes)
        return found
