"""What a call does with its span, whether it is recorded or not."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from mqpg.values.messages import Message

__all__ = ["Span"]


class Span:
    """A span that is not recorded. Those that are do more in each of these methods."""

    __slots__ = ()

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def carry(self, headers: Any) -> Any:
        """The headers of a message, with the context of this span."""
        return headers

    def carry_all(self, headers: Sequence[Any] | None, count: int) -> Sequence[Any] | None:
        """The headers of a batch of so many messages, with the context of this span."""
        return headers

    def sent(self, message_id: int) -> None:
        """Note the id of the message."""

    def prepared(self, handle: str) -> None:
        """Note the message id in a handle. The handle itself is a secret."""

    def received(self, messages: Sequence[Message]) -> None:
        """Note what was received. A call that received nothing has no span."""
