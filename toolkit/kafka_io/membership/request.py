"""What every request of a member has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar


class MemberResponse(Protocol):
    """A response: `error` is the broker's code, 0 without an error."""

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
    """A response that is only an error code, and its meaning if that is used."""

    error: int
    why: str = ""
