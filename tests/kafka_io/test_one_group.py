from typing import Any

import pytest

from toolkit.errors import NotFound
from toolkit.kafka_io.one_group import read_one_group
from toolkit.model import TopicPartition


def test_a_name_is_no_pattern(apps: Any) -> None:
    """A group that is called like a pattern is read by itself, and a pattern is no group."""
    partition = TopicPartition(apps.create_topic(apps.name("one"), records=3), 0)
    stem = apps.name("group")
    for name in (f"{stem}*", f"{stem}-a", f"[{stem}]"):
        apps.commit(name, {partition: 1})

    for name in (f"{stem}*", f"[{stem}]"):
        facts, group = read_one_group(apps.cluster, name)
        assert ([name], name) == ([g.group_id for g in facts.groups], group.group_id)
        assert [name] == [commit.group_id for commit in facts.commits]
    with pytest.raises(NotFound, match="no group named"):
        read_one_group(apps.cluster, f"{stem}-?")
