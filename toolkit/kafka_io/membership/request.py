"""What every request of a member has, and the error codes on which members act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from toolkit.kafka_io.client.error_codes import NO_ERROR, reason

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27
MEMBER_ID_REQUIRED = 79
GROUP_ID_NOT_FOUND, FENCED_MEMBER_EPOCH = 69, 110


class MemberResponse(Protocol):
    """What was heard: `error` is the broker's code, 0 where all is well."""

    @property
    def error(self) -> int:
        """The broker's error code."""


class MemberRequest(Protocol):
    """One request to a group's coordinator, or, where `to_any`, to any broker."""

    to_any: ClassVar[bool]
    waits: ClassVar[bool]  # the coordinator answers when the whole group has come together

    def build(self, group_id: str) -> Any:
        """Return the protocol message."""

    def read(self, response: Any) -> MemberResponse:
        """Return what the broker's answer says."""


@dataclass(frozen=True, slots=True)
class ErrorCodeResult:
    """An answer that is an error code and nothing else; 0 where all is well."""

    error: int = NO_ERROR

    @property
    def why(self) -> str:
        """The code in words; "" where all is well."""
        return "" if self.error == NO_ERROR else reason(self.error)
