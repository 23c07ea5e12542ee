"""Which objects a change of nodes concerns: those for which the fit check has another answer than before.

Nodes come, go and change labels all the time where they are added on demand. Of thousands of objects few are
concerned, and a reconcile of each would find that out the dear way. Most ask the same few questions.
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
"""For how long questions are gone through before the event loop gets to its other work."""


class Subject(Protocol):
    """An object as it is at a moment."""

    @property
    def uid(self) -> str:
        """Which of those that had its name."""

    @property
    def generation(self) -> int:
        """Of its spec."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the fit check said of an object when it was observed."""

    about: tuple[Any, ...]
    """As what: its uid and generation."""
    nodes: tuple[Node, ...] | None
    """Of which nodes; None: they were not known."""
    answers: tuple[tuple[Question, str], ...]


class FitWatch:
    """Remembers what was said of each object, in terms of questions that many objects share."""

    def __init__(self) -> None:
        self._told: dict[Key, _Told] = {}
        self._questions: WeakValueDictionary[Any, Question] = WeakValueDictionary()
        """One of each that any object asks."""

    def note(
        self,
        key: Key,
        subject: S | None,
        nodes: tuple[Node, ...] | None,
        questions: Callable[[S], Sequence[Question]],
    ) -> None:
        """An object is observed: what the fit check says of it now is known to it.

        Args:
            key: The object.
            subject: What its manifest says; None: it is not checked.
            nodes: The nodes; None: they are not known.
            questions: What is asked for it.
        """
        if subject is None:
            self.forget(key)
            return
        about = subject.uid, subject.generation
        before = self._told.get(key)
        if before is not None and before.about == about and before.nodes is nodes:
            return
        asked = [self._questions.setdefault(each.key, each) for each in questions(subject)]
        answers = tuple((each, "" if nodes is None else fit.answer(each, nodes)) for each in asked)
        self._told[key] = _Told(about, nodes, answers)

    def forget(self, key: Key) -> None:
        """The object has gone."""
        self._told.pop(key, None)

    async def concerned(self, nodes: tuple[Node, ...] | None) -> Collection[Key]:
        """The objects of which something else is to be said, now that these are the nodes."""
        if nodes is None:
            return [key for key, told in self._told.items() if told.nodes is not None]
        now: dict[Question, str] = {}
        began = time.monotonic()
        for question in {question for told in self._told.values() for question, _ in told.answers}:
            now[question] = fit.answer(question, nodes)
            if time.monotonic() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = time.monotonic()
        found = []
        for key, told in self._told.items():
            if told.nodes is None or any(now.get(each, said) != said for each, said in told.answers):
                found.append(key)
            else:
                # So that no list of nodes is kept for longer than it is of use.
                self._told[key] = replace(told, nodes=nodes)
        return found
