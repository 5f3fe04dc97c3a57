"""What a copy is asked for is checked before a cluster is asked anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import UsageError
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.copy import CopyRequest, copy
from toolkit.model import Cluster

DOWN = Cluster("eu", "127.0.0.1:1")  # where nobody may listen but root, and nobody does


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"group": ""}, "no group selected"),
        ({"group": ["g", "h"]}, "a copy is of one group, and groups has 2: g, h"),
        ({"group": "g", "by": "size"}, "unknown value 'size' for the offsets of a mirror"),
        ({"group": "g", "topics": ["a b"]}, "'a b' does not begin with the name of a topic"),
        ({"group": "g"}, "no other name for group 'g' is given"),
        (
            {"group": "g", "to_group": "h", "topic_prefix": "eu."},
            "a prefix of topics is for a copy to another cluster",
        ),
    ],
)
def test_what_is_no_copy_is_refused(asked: dict[str, Any], says: str) -> None:
    """Each mistake is named; the cluster, which is down, would be another error."""
    with pytest.raises(UsageError) as caught:
        copy(ClusterAccess(DOWN, Path("nowhere")), CopyRequest(**asked))

    assert says == caught.value.problem
    assert caught.value.hint
