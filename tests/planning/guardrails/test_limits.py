"""The limits of a standing approval, as they are written and as they narrow a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guardrail_cases import facts
from guardrail_examples import standing
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import Policy
from toolkit.plan.approvals import Limits
from toolkit.planning.guardrails.standing_rules import group_not_allowed

NEEDED = ["max_groups=1", "max_partitions=2"]


def test_what_is_not_given_is_not_allowed() -> None:
    """Records that are not spoken of may be neither skipped nor repeated; any group may change."""
    assert Limits(1, 2) == Limits.parse(NEEDED)
    assert Policy(
        max_groups=1, max_partitions=2, max_records_skipped=0, max_records_repeated=0
    ) == (Limits.parse(NEEDED).narrow(Policy()))


def test_every_limit_can_be_written() -> None:
    """A number for each but the groups, which may be named one after the other."""
    texts = [
        *("max_groups=1", "max_partitions=2_000", "max_records_skipped=3"),
        *("max_records_repeated=4", "groups=pay=*", "empty_for_days=30", "groups=search-*"),
        *("unsubscribed_for_days=14", "unsubscribed_in_runs=2"),
    ]

    assert Limits(1, 2000, 3, 4, ("pay=*", "search-*"), 30, 14, 2) == Limits.parse(texts)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "a standing approval needs a limit for max_groups, max_partitions"),
        (["max_groups=1"], "a standing approval needs a limit for max_partitions"),
        ([*NEEDED, "max_group=1"], "unknown limit 'max_group'"),
        ([*NEEDED, "zeal=1"], "unknown limit 'zeal'"),
        ([*NEEDED, ""], "unknown limit ''"),
        ([*NEEDED, "max_records_skipped"], "limit 'max_records_skipped' has no value"),
        ([*NEEDED, "max_records_skipped="], "limit 'max_records_skipped=' has no value"),
        ([*NEEDED, "max_groups=9"], "duplicate limit max_groups"),
        (["max_groups=-1"], "limit 'max_groups=-1' must be a whole number from 0"),
        (["max_groups=1.5"], "limit 'max_groups=1.5' must be a whole number from 0"),
        (["max_groups=٣"], "limit 'max_groups=٣' must be a whole number from 0"),
        (["max_groups=01"], "limit 'max_groups=01' must be a whole number from 0"),
    ],
)
def test_a_limit_that_is_none_is_refused(texts: list[str], says: str) -> None:
    """The text that is wrong is named; nothing is guessed."""
    with pytest.raises(UsageError) as caught:
        Limits.parse(texts)

    assert says == caught.value.problem


counts = st.integers(0, 5)


@given(st.tuples(counts, counts, counts, counts), st.tuples(counts, counts, counts, counts))
def test_limits_only_narrow(ours: tuple[int, ...], fleets: tuple[int, ...]) -> None:
    """No approval allows more than the fleet file, and none more than itself."""
    names = ("max_groups", "max_partitions", "max_records_skipped", "max_records_repeated")
    policy = replace(Policy(), **dict(zip(names, fleets, strict=True)))

    narrow = Limits(*ours).narrow(policy)

    assert tuple(map(min, ours, fleets)) == tuple(getattr(narrow, name) for name in names)


@pytest.mark.parametrize(
    ("entry", "listed", "is_allowed"),
    [("[fg]", {"g"}, True), ("[fg]", {"g", "[fg]"}, False), ('"g"', {"g"}, True)],
)
def test_an_allowed_name_is_that_of_a_group(
    *, entry: str, listed: set[str], is_allowed: bool
) -> None:
    """It is a pattern only where no group has it as its name, whether the plan is of it or not."""
    case = standing(facts(listed=frozenset(listed)), groups=(entry,))

    assert is_allowed != any(group_not_allowed(case))
