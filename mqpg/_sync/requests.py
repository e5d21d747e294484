# Generated from mqpg/_async/requests.py by tools/async_to_sync.py: change that file.
"""Request and reply: a reply is a message whose key is the request's correlation id.

So it is found by its key: the requester needs no subscription, nothing is left behind when it goes away, and
after a crash it can ask for the same reply again until the reply topic's retention ends.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from typing import Any

from mqpg._requests import CORRELATION_ID, REPLY_TO, correlation_id, reply_topic
from mqpg._sync.caller import Caller
from mqpg._sync.consume import Consuming
from mqpg._sync.find import Finding
from mqpg._sync.produce import Producing
from mqpg._sync.topics import Topics
from mqpg._sync.waiting import Wake
from mqpg.errors import AlreadyDefined, InvalidArgument, NoReply, UnknownTopic
from mqpg.message import Interval, Message

__all__ = ["Requesting"]

_REPLIES = "mqpg-replies"
_KEPT = 3600.0


class Requesting(Producing, Consuming, Finding, Topics):
    """Calls of those who ask and of those who answer."""

    def request(
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
        """Send a request and wait for its reply. Raises NoReply after `timeout` seconds, UnknownTopic, …

        Give a `correlation_id` of your own to ask again after a crash: a request is sent at most once under
        it while its dedup window lasts, and a reply that is there already is returned at once.
        """
        asked = correlation_id or uuid.uuid4().hex
        give_up = time.monotonic() + timeout
        self._require_replies(reply_topic)
        with Wake(self, reply_topic) as wake:
            found = self.reply_of(asked, reply_topic=reply_topic) if correlation_id else None
            if found is None:
                marks = {REPLY_TO: reply_topic, CORRELATION_ID: asked}
                self.send(
                    topic, payload, key=key, tag=tag, headers={**(headers or {}), **marks}, delay=delay, dedup_id=asked
                )
            while found is None and (left := give_up - time.monotonic()) > 0:
                wake.wait(seconds=min(left, 5.0))
                found = self.reply_of(asked, reply_topic=reply_topic)
        if found is None:
            raise NoReply(f"no reply to {asked} on topic {reply_topic} within {timeout:g} s", correlation_id=asked)
        return found

    def reply_of(self, correlation_id: str, *, reply_topic: str = _REPLIES) -> Message | None:
        """The first reply to a request that was sent before, if it is there."""
        for found in self.find_by_key(reply_topic, correlation_id):
            if found.queue_offset is not None:
                (message,) = self.fetch(reply_topic, found.queue_id, found.queue_offset, 1)
                return message
        return None

    def reply(
        self, request: Message, payload: Any, *, headers: dict[str, Any] | None = None, conn: Caller | None = None
    ) -> int:
        """Reply to a message that came by `request`; returns the reply's id. Raises InvalidArgument for others.

        A second reply to one request is dropped as long as the dedup window lasts. With `conn` it belongs to
        your transaction.
        """
        topic, asked = reply_topic(request), correlation_id(request)
        if topic is None or asked is None:
            raise InvalidArgument(f"message {request.message_id} is no request: it has no header {REPLY_TO}")
        marks = {CORRELATION_ID: asked}
        return self.send(
            topic, payload, key=asked, headers={**(headers or {}), **marks}, dedup_id=f"reply:{asked}", conn=conn
        )

    def _require_replies(self, topic: str) -> None:
        """Create the default topic; one of the caller's must be there before anything is sent."""
        if topic == _REPLIES:
            with suppress(AlreadyDefined):
                self.create_topic(_REPLIES, retention=_KEPT)
        elif not self._queues(topic):
            raise UnknownTopic(f"topic {topic!r} does not exist")
