"""
What a plan in a notebook was made from: the cells that had run, and the parameters.

Once one of these cells runs again, or a parameter changes, the plan is out of date, and so is every
card that shows it: else a cell that fails leaves the card of the plan before it, ready to be
applied. In a script and in a headless run nothing runs twice, and nothing is out of date.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from toolkit.report.display import running_shell
from toolkit.report.run_command import typed_names

RAN_AGAIN = "a cell above was run again"


@dataclass(frozen=True, eq=False)
class NotebookParameters:
    """
    The parameters of the notebook in this kernel.

    `defaults` are those of the package's notebook, `kernel` is the namespace of the cells.
    """

    notebook: str
    defaults: Mapping[str, object]
    kernel: Mapping[str, Any]
    given: Mapping[str, object] = field(init=False)  # what the parameters cell has set

    def __post_init__(self) -> None:
        """Note the values of now: cells below may choose others."""
        object.__setattr__(self, "given", deepcopy(self.values))  # it is frozen

    @property
    def values(self) -> dict[str, object]:
        return {name: self.kernel[name] for name in self.defaults if name in self.kernel}

    @property
    def edited(self) -> dict[str, object]:
        """The parameters that are not the package's defaults; None for an empty text or list."""
        values = self.values.items()
        edited = {name: value for name, value in values if value != self.defaults[name]}
        return {name: None if value in ("", [], ()) else value for name, value in edited.items()}

    def chosen_below(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return the parameters of a plan that differ from the parameters cell."""
        plain = {
            n: typed_names(v) if isinstance(v, tuple) else v for n, v in parameters.items() if v
        }
        return {n: v for n, v in plain.items() if n in self.given and v != self.given[n]}


class PlanInputs:
    """The cells that ran until now, and the parameters now; `outdated` says what changed since."""

    def __init__(
        self, parameters: NotebookParameters | None, *, without: Collection[str] = ()
    ) -> None:
        """Note the cells and the parameters, except those that the plan does not depend on."""
        self._parameters = parameters
        self._values = _copied(parameters, without)
        self._why = ""
        self._listeners: list[Callable[[str], object]] = []
        self.names = frozenset(parameters.defaults if parameters else ())
        self.cells: frozenset[str] = frozenset()
        if watch := _watch():
            self.cells = frozenset(watch.ran)
            watch.made.add(self)

    @property
    def outdated(self) -> str:
        """Why this is out of date; "" if it is not."""
        self.compare()
        return self._why

    def on_outdated(self, tell: Callable[[str], object]) -> None:
        """Call `tell` with the reason once this is out of date; at once, if it is already."""
        self._listeners.append(tell)
        if self._why:
            tell(self._why)

    def compare(self) -> None:
        now = self._parameters.values if self._parameters else {}
        changed = [name for name, then in self._values.items() if now.get(name) != then]
        if changed:
            self.end(f"{', '.join(changed)} changed")

    def end(self, why: str) -> None:
        """Declare this out of date; the first reason stays."""
        if self._why:
            return
        self._why = why
        for tell in self._listeners:
            tell(why)


class CellWatch:
    """Follows which cells a kernel runs."""

    def __init__(self, shell: Any) -> None:
        self.ran: list[str] = []  # ids, in the order in which they ran last
        self.made: WeakSet[PlanInputs] = WeakSet()
        self.ended_s = 0.0  # when the last cell ended, of a clock that only goes forward
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._compare)

    def end_all(self, why: str) -> None:
        for made in list(self.made):
            made.end(why)

    def _begin(self, info: Any) -> None:
        # Before the cell is compiled: one that cannot be has run as well.
        cell, text = info.cell_id, info.raw_cell or ""
        for made in list(self.made):
            if cell in made.cells or _sets_any(made.names, text):
                made.end(RAN_AGAIN)
        if cell in self.ran:
            del self.ran[self.ran.index(cell) :]
        if cell:
            self.ran.append(cell)

    def _compare(self, _: Any) -> None:
        self.ended_s = time.monotonic()
        for made in list(self.made):
            made.compare()


_watches: WeakKeyDictionary[Any, CellWatch] = WeakKeyDictionary()


def end_plans(why: str = RAN_AGAIN) -> None:
    """Declare everything in this kernel out of date that was made from earlier parameters."""
    if watch := _watch():
        watch.end_all(why)


def last_cell_ended_s() -> float:
    """Return when the last cell ended, of `time.monotonic`; 0 if that is not known."""
    watch = _watch()
    return watch.ended_s if watch else 0.0


def _watch() -> CellWatch | None:
    shell = running_shell()
    if shell is not None and shell not in _watches:
        _watches[shell] = CellWatch(shell)
    return _watches.get(shell) if shell is not None else None


def _copied(parameters: NotebookParameters | None, without: Collection[str]) -> dict[str, object]:
    values = parameters.values if parameters else {}
    return {name: deepcopy(value) for name, value in values.items() if name not in without}


def _sets_any(names: Collection[str], text: str) -> bool:
    """Return whether a cell that need not be Python sets one of these names."""
    if not names:
        return False
    either = "|".join(map(re.escape, names))
    return bool(re.search(rf"^(?:{either})\s*(?::[^=\n]*)?=(?!=)", text, re.MULTILINE))
