"""Release partitions without the keeper that holds them, by removing its members."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import Leave
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH, ConsumerHeartbeat
from toolkit.kafka_io.membership.group_config import STREAMS_DELAY_MS, ChangeConfig
from toolkit.kafka_io.membership.streams import LeaveStreams
from toolkit.live.application_view import TOLD_WITHIN_S, until_resumed
from toolkit.live.recipe_steps import run_recipe
from toolkit.model import Cluster, GroupType
from toolkit.model.names import shown_name
from toolkit.plan import Step
from toolkit.planning.holds.recipes import APPLICATION_DELAY

LEFT = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID})
RESUMED_WITHIN_S = APPLICATION_DELAY.total_seconds() + TOLD_WITHIN_S


def remove_holders(cluster: Cluster, step: Step, holders: Collection[str]) -> None:
    """
    Remove members of a dead or another user's keeper by their ids; coordinators allow it.

    Raises BrokerRefused with the first refusal.
    """
    remove = {GroupType.CONSUMER: _from_consumer, GroupType.STREAMS: _from_streams}
    with GroupChannel(cluster, step.group_id) as channel:
        refused = list(remove.get(step.type, _from_classic)(channel, sorted(holders)))
    if refused:
        raise BrokerRefused(f"releasing partitions of {shown_name(step.group_id)}: {refused[0]}")


def _from_classic(channel: GroupChannel, holders: list[str]) -> Iterator[str]:
    left = channel.ask(Leave(tuple(holders)))
    yield from (str(code) for code in (left.error, *left.members.values()) if code)


def _from_consumer(channel: GroupChannel, holders: list[str]) -> Iterator[str]:
    answers = channel.ask_together([ConsumerHeartbeat(one, LEAVE_EPOCH) for one in holders])
    yield from (answer.why for answer in answers if answer.error)


def _from_streams(channel: GroupChannel, holders: list[str]) -> Iterator[str]:
    """Remove the delay first: a keeper that lives and finds it comes back."""
    changed = channel.ask(ChangeConfig(STREAMS_DELAY_MS, None))
    if changed.error:
        yield changed.why
        return
    answers = channel.ask_together([LeaveStreams(one) for one in holders])
    yield from (answer.why for answer in answers if answer.error not in LEFT)
    if why := run_recipe(until_resumed(RESUMED_WITHIN_S), channel):
        yield why
