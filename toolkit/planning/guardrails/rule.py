"""One guard rail: what it judges, in which plans, and whether an operator may override it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum

from toolkit.plan import Intent
from toolkit.planning.guardrails.check_context import CheckContext, Objection

ANY = frozenset(Intent)
OF_OFFSETS = ANY - {Intent.PAUSE, Intent.RESUME}  # these two only change the assignment

Judge = Callable[[CheckContext], Iterable[Objection]]


class Override(StrEnum):
    """Whether an operator may override a rule that blocks, by naming it."""

    ALLOWED = "allowed"
    NEVER = "never"
    BY_HAND = "by hand"  # an approval of one fingerprint may; a standing approval sets the limits


NEVER, BY_HAND = Override.NEVER, Override.BY_HAND


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One guard rail; the decorator of the function that judges it, whose name it has.

    `judges` says in one sentence what holds where it does not block. `intents` are those of the
    plans that it can block: for others, an override has no effect. `instead` is another way to the
    same result, where an override would only leave that out. `only_standing`: it judges only what
    is applied under a standing approval. `lasting`: a new plan is blocked as well. `by` is the
    function that judges it; None where only planning can find it.
    """

    judges: str
    _: KW_ONLY
    override: Override = Override.ALLOWED
    instead: str = ""
    intents: frozenset[Intent] = ANY
    only_standing: bool = False
    lasting: bool = False
    name: str = ""
    by: Judge | None = None

    def __call__(self, by: Judge) -> Rule:
        return replace(self, name=by.__name__.replace("_", "-"), by=by)
