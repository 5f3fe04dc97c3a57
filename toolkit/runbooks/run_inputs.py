"""Combine runbook parameters, -p options and clusters into runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.errors import ParameterError, UsageError
from toolkit.journeys.change.approval_parameters import WITHIN_LIMITS
from toolkit.runbooks.runbook_page import Runbook
from toolkit.runner.parameters import parse_parameters, path_in
from toolkit.storage.fleet_file import choose_clusters, load_fleet


def values_of(
    page: Runbook, given: Iterable[tuple[str, str]], *, dry_run: bool
) -> dict[str, object]:
    """
    Return the values of one run but for its cluster; `given` are names and texts.

    Where the page may not change anything it is a dry run whatever is given. Raises ParameterError
    for what is unknown, of the wrong type or fixed by the page, UsageError where something is
    missing.
    """
    texts = tuple(given)
    for name, _ in texts:
        if hint := page.why_fixed(name):
            raise ParameterError(f"runbook {page.name}: {name} cannot be set with -p", hint=hint)
    values = {**page.parameters, **parse_parameters(page.declared, texts, notebook=page.name)}
    # A variable that is not set must not mean all topics, nor no reason.
    names = {name for name, text in texts if text and values[name] not in ("", [], None)}
    if missing := [name for name in page.must_give if name not in names]:
        options = " ".join(f"add -p {name}=..." for name in missing)
        raise UsageError(
            f"runbook {page.name} is missing parameters: {', '.join(missing)}", hint=options
        )
    if page.takes("dry_run"):
        values["dry_run"] = dry_run or not page.may_change
    if page.may_change:
        values |= {"approve": WITHIN_LIMITS, "limits": list(page.limits)}
        values["reason"] = values.get("reason") or f"runbook {page.name}: {page.title}"
    return values


def runs_of(
    page: Runbook, values: dict[str, object], *, clusters: Sequence[str]
) -> list[tuple[tuple[str, ...], dict[str, object]]]:
    """
    Return the runs to make, as the clusters that each is about, and its values.

    Raises UsageError for clusters that are unknown, not the page's, or not named where they must
    be; FleetFileError where there is no fleet file that can be used.
    """
    if page.clusters is None and not clusters and not page.must_name_clusters:
        return [((), values)]  # all that the notebook can see, such as the audit log
    fleet = load_fleet(path_in(values, "fleet_file"))
    names = tuple(cluster.name for cluster in choose_clusters(fleet, _names(page, clusters)))
    if page.is_of_a_fleet:
        return [(names, values | {"clusters": list(names)})]
    if page.takes("clusters"):
        return [((name,), values | {"clusters": [name]}) for name in names]
    if page.takes("cluster"):
        return [((name,), values | {"cluster": name}) for name in names]
    return [((), values)]


def _names(page: Runbook, clusters: Sequence[str]) -> Sequence[str]:
    if page.must_name_clusters and not clusters:
        raise UsageError(f"runbook {page.name} needs a cluster", hint="add --cluster NAME")
    if page.clusters and (others := [name for name in clusters if name not in page.clusters]):
        raise UsageError(
            f"runbook {page.name} is not for cluster {others[0]!r}",
            hint=f"use one of: {', '.join(page.clusters)}",
        )
    return clusters or page.clusters or ()
