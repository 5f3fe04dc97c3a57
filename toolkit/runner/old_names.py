"""
The old names of notebook parameters, which are accepted until the next release.

They are known where parameters are given (`-p`, parameters files, runbook pages, Python, papermill)
and nowhere else: what is shown, printed and recorded has the new names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from toolkit.errors import ParameterError

# One name was given as a text; now it is a list of names.
OLD_NAMES = {"group": "groups", "cluster": "clusters"}


def old_names(known: Collection[str]) -> dict[str, str]:
    """Return the old names, each with the new one, of parameters of which a notebook knows some."""
    return {old: new for old, new in OLD_NAMES.items() if new in known and old not in known}


def new_name(name: str, known: Collection[str]) -> str:
    """Return the name that a parameter has now."""
    return old_names(known).get(name, name)


def with_new_names(
    known: Collection[str], given: Mapping[str, object], *, notebook: str
) -> dict[str, object]:
    """
    Return values by their new names: the text of an old one is a list of this one name.

    Raises ParameterError where a value is given by both names, or one by an old name is no text.
    """
    values = dict(given)
    for old, new in old_names(known).items():
        if old not in values:
            continue
        value = values.pop(old)
        if new in values:
            raise ParameterError(
                f"{notebook}: {old} and {new} are both given",
                hint=f"give {new} alone; {old} is its old name",
            )
        if not isinstance(value, str):
            raise ParameterError(
                f"{notebook}: parameter {old} must be str, got {value!r}",
                hint=f"give a list by its new name, {new}",
            )
        values[new] = [value] if value else []
    return values


def renamed_in_kernel(
    known: Collection[str], kernel: MutableMapping[str, Any], *, notebook: str, by_hand: bool
) -> dict[str, str]:
    """
    Take what papermill has set by an old name, and return the old names in use, each with the new.

    An older copy of a notebook has only the old name, which its cells use: it stays. In a cell that
    is run `by_hand`, a variable with an old name is any variable, and no parameter.
    """
    in_use = {}
    for old, new in old_names(known).items():
        if old not in kernel or (new in kernel and (by_hand or not kernel[old])):
            continue
        in_use[old] = new
        if new in kernel:
            others = {new: kernel[new]} if kernel[new] not in ([], [kernel[old]]) else {}
            kernel.update(with_new_names(known, {old: kernel[old], **others}, notebook=notebook))
    return in_use


def rename_notices(used: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each old name that was used."""
    renamed = old_names(known)
    for old in dict.fromkeys(used):
        if old in renamed:
            yield (
                f"parameter {old} is now called {renamed[old]}, a list of names; the old name is "
                "accepted until the next release"
            )
