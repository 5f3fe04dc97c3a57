"""What the registry knows of one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from toolkit.plan import Intent
from toolkit.planning.guardrails.check_context import CheckContext, Needs, Objection

ANY = frozenset(Intent)
NOTHING = Needs(0)

Judge = Callable[[CheckContext], Iterable[Objection]]


class Override(StrEnum):
    """Whether an operator may go on although a rule blocks, by naming it."""

    ALLOWED = "allowed"
    NEVER = "never"
    BY_HAND = "by hand"  # an approval of one fingerprint may; a standing approval sets the limits


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One guard rail.

    `judges` says in one sentence what holds where it does not block. `by` is the function that
    judges it; None where only planning can find it. Where a fact of `needs` is not known, the rule
    blocks. `intents` are those of the plans that it can block: for others, an override has no
    effect. `instead` is what does what was asked where an override cannot: it would only leave that
    out. `only_standing`: it judges only what is applied under a standing approval. `lasting`: a
    new plan is blocked as well.
    """

    name: str
    judges: str
    by: Judge | None = None
    _: KW_ONLY
    override: Override = Override.ALLOWED
    instead: str = ""
    needs: Needs = NOTHING
    intents: frozenset[Intent] = ANY
    only_standing: bool = False
    lasting: bool = False
