"""Request and reply: a reply is a message whose key is the request's correlation id.

The requester therefore finds the reply by its key. It needs no subscription and leaves nothing
behind when it goes away, and after a crash it can ask for the same reply again until the reply
topic's retention ends.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from typing import Any

from mqpg._async.client.execute import Caller
from mqpg._async.client.queries import Queries
from mqpg._async.client.receive import Receive
from mqpg._async.client.send import Send
from mqpg._async.client.topics import Topics
from mqpg._async.client.trace import Trace
from mqpg._async.client.wakeup import TopicWaiter
from mqpg.values.arguments import seconds, text_of
from mqpg.values.errors import AlreadyDefined, InvalidArgument, NoReply, Undecodable, shown
from mqpg.values.messages import Interval, Message

__all__ = ["RequestReply", "is_request"]

_REPLIES = "mqpg-replies"
_RETENTION = 3600.0
_REPLY_TO = "mqpg-reply-to"
_CORRELATION_ID = "mqpg-correlation-id"
# The longest pause before the reply is asked for again, should a notification get lost.
_LONGEST_PAUSE = 5.0


class RequestReply(Send, Receive, Trace, Topics):
    """Calls of programs that send requests, and of those that answer them."""

    async def request(
        self,
        topic: str,
        payload: Any,
        *,
        timeout: float = 30.0,
        key: str | None = None,
        tag: str | None = None,
        headers: dict[str, Any] | None = None,
        delay: Interval | None = None,
        reply_topic: str = _REPLIES,
        correlation_id: str | None = None,
    ) -> Message:
        """Send a request and wait for its reply.

        Args:
            topic: The topic of the request.
            payload: The request's payload, as in `send`.
            timeout: How many seconds to wait for the reply.
            key: The request's key. None: no key.
            tag: The request's tag. None: no tag.
            headers: Further headers of the request. None: none.
            delay: How long until the request becomes visible. None: at once.
            reply_topic: The topic of the reply. The default one is created where it is missing.
            correlation_id: An id of your own, to ask again after a crash: within the dedup window
                only one request is sent under it, and a reply that is there already is returned at
                once. None: a new id.

        Returns:
            The reply.

        Raises:
            NoReply: No reply came in time; the error carries the correlation id.
            UnknownTopic: There is no such topic, or no such reply topic.
            InvalidArgument: An argument is out of range.
        """
        asked = text_of(correlation_id or uuid.uuid4().hex, "correlation_id")
        limit = seconds(timeout, "timeout")
        deadline = time.monotonic() + limit
        given = _headers(headers)
        await self._require_reply_topic(text_of(reply_topic, "reply_topic"))
        with TopicWaiter(self, reply_topic) as waiter:
            found = await self.reply_of(asked, reply_topic=reply_topic) if correlation_id else None
            if found is None:
                marks = {_REPLY_TO: reply_topic, _CORRELATION_ID: asked}
                await self.send(
                    topic, payload, key=key, tag=tag, headers={**given, **marks}, delay=delay, dedup_id=asked
                )
            while found is None and (left := deadline - time.monotonic()) > 0:
                await waiter.wait(seconds=min(left, _LONGEST_PAUSE))
                found = await self.reply_of(asked, reply_topic=reply_topic)
        if found is None:
            raise NoReply(
                f"no reply to request {asked} came on topic {reply_topic} within {limit:g} s", correlation_id=asked
            )
        return found

    async def reply_of(self, correlation_id: str, *, reply_topic: str = _REPLIES) -> Message | None:
        """Look for the reply to a request that was sent before.

        Args:
            correlation_id: The request's correlation id.
            reply_topic: The topic of the reply.

        Returns:
            The first reply, or None if there is none yet.

        Raises:
            UnknownTopic: There is no such reply topic.
        """
        for found in await self.find_by_key(reply_topic, correlation_id):
            if found.queue_offset is not None:
                (message,) = await self.fetch(reply_topic, found.queue_id, found.queue_offset, 1)
                return message
        return None

    async def reply(
        self, request: Message, payload: Any, *, headers: dict[str, Any] | None = None, conn: Caller | None = None
    ) -> int:
        """Reply to a message that was sent by `request`.

        A second reply to one request is dropped as long as the dedup window lasts.

        Args:
            request: The message to reply to.
            payload: The reply's payload, as in `send`.
            headers: Further headers of the reply. None: none.
            conn: The caller's transaction, for an effect and its reply in one commit. None: the
                call commits at once.

        Returns:
            The reply's message id.

        Raises:
            InvalidArgument: The message is no request.
            UnknownTopic: The request names a reply topic that does not exist.
        """
        if not isinstance(request, Message):
            raise InvalidArgument(f"request must be a message that was received, not {shown(request)}")
        topic, asked = _text(request, _REPLY_TO), _text(request, _CORRELATION_ID)
        if topic is None or asked is None:
            raise InvalidArgument(f"message {request.message_id} is no request: it has no header {_REPLY_TO}")
        marks = {_CORRELATION_ID: asked}
        return await self.send(
            topic, payload, key=asked, headers={**_headers(headers), **marks}, dedup_id=f"reply:{asked}", conn=conn
        )

    async def _require_reply_topic(self, topic: str) -> None:
        """Create the default topic. A topic of the caller's must exist before anything is sent."""
        if topic == _REPLIES:
            with suppress(AlreadyDefined):
                await self.create_topic(_REPLIES, retention=_RETENTION)
        else:
            await Queries(self).queue_count(topic)


def is_request(message: Message) -> bool:
    """Whether a program waits for a reply to this message."""
    return _text(message, _REPLY_TO) is not None and _text(message, _CORRELATION_ID) is not None


def _headers(given: object) -> dict[str, Any]:
    """The caller's headers, which others are added to. Raises InvalidArgument."""
    if given is not None and not isinstance(given, dict):
        raise InvalidArgument(f"headers must be a dictionary, not {shown(given)}")
    return given or {}


def _text(message: Message, name: str) -> str | None:
    try:
        headers = message.headers
    except Undecodable:
        return None
    value = headers.get(name) if isinstance(headers, dict) else None
    return value if isinstance(value, str) else None
