"""What every request of a member has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from toolkit.kafka_io.client.error_codes import ErrorCode, reason


class MemberResponse(Protocol):
    """What was heard: `error` is the broker's code, 0 where all is well."""

    @property
    def error(self) -> int:
        """The broker's error code."""


AnswerT = TypeVar("AnswerT", bound=MemberResponse)
AnswerT_co = TypeVar("AnswerT_co", bound=MemberResponse, covariant=True)


class MemberRequest(Protocol[AnswerT_co]):
    """One request to a group's coordinator, or, where `to_any`, to any broker."""

    to_any: ClassVar[bool] = False
    waits: ClassVar[bool] = False  # the coordinator answers when the whole group has come together

    def build(self, group_id: str) -> Any:
        """Return the protocol message."""

    def read(self, response: Any) -> AnswerT_co:
        """Return what the broker's answer says."""


@dataclass(frozen=True, slots=True)
class ErrorCodeResult:
    """An answer that is an error code and nothing else; 0 where all is well."""

    error: int = ErrorCode.NONE

    @property
    def why(self) -> str:
        """The code in words; "" where all is well."""
        return "" if self.error == ErrorCode.NONE else reason(self.error, "Read")
