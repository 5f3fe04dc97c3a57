"""The command with the real tool's flags, on groups of a quiet cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import Any

import pytest
from main_program import call_main

from toolkit.model import TopicPartition

Ran = CompletedProcess[str]
Held = dict[TopicPartition, int]
EXECUTE = ("--execute", "--reason", "a test", "--override", "keeps-committing")


@dataclass(frozen=True)
class Shell:
    """Where commands are called, and the groups and topics that they are about."""

    apps: Any
    operator: Any

    def __call__(self, *arguments: str, address: str = "", **environment: str) -> Ran:
        given = ("--bootstrap-server", address or self.apps.address, *arguments)
        return self.offsetbook("consumer-groups", *given, **environment)

    def execute(self, *arguments: str, address: str = "") -> Ran:
        return self(*arguments, *EXECUTE, address=address)

    def offsetbook(self, *arguments: str, **environment: str) -> Ran:
        """Run any command; an error is what `main` makes of it."""
        state = self.operator.state
        settings = {"OFFSETBOOK_STATE": str(state), **environment}
        return call_main(arguments, folder=state.parent, **settings)

    def topic(self, partitions: int = 3) -> str:
        return str(
            self.apps.create_topic(self.apps.name("topic"), partitions=partitions, records=20)
        )

    def group(self, offsets: Mapping[tuple[str, int], int]) -> str:
        name = self.apps.name("group")
        places = {TopicPartition(*at): offset for at, offset in offsets.items()}
        self.apps.commit(name, places)
        return str(name)

    def idle(self, *offsets: int) -> tuple[str, str]:
        """Return a simple group, and the topic of which it holds these offsets by partition."""
        topic = self.topic()
        return self.group({(topic, number): at for number, at in enumerate(offsets)}), topic

    def held(self, group: str) -> Held | None:
        found = self.operator.held(group).get(group)
        return None if found is None else {at: place.offset for at, place in found.items()}

    @property
    def runs(self) -> int:
        """How many changes were begun, by the audit log, which must be intact."""
        return sum(1 for entry in self.operator.log if entry.event == "intent")


@pytest.fixture
def shell(apps: Any, operator: Any) -> Shell:
    return Shell(apps, operator)
