# Generated from mqpg/_async/consumer/applied_before.py by tools/async_to_sync.py: change that file.
"""Messages that a consumer with its own database applied before its broker lost them (C2).

A broker that lost the end of its log may still have a message whose offset it lost, and gives it a
new one. A producer may send a message again that the broker lost, under a new id, with the header
`mqpg-earlier-ids`. Inbox and journal know both by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._sync._acompat import Connection
from mqpg._sync.stores.journal import Journal
from mqpg._sync.stores.offsets import Offsets
from mqpg.values.messages import EARLIER_IDS, Message

__all__ = ["AppliedBefore"]


class AppliedBefore:
    """Looks messages up before they are applied."""

    def __init__(self, offsets: Offsets, journal: Journal) -> None:
        self._offsets, self._journal = offsets, journal

    def leave_out(
        self, conn: Connection, broker_id: str, messages: Sequence[Message], *, only_sent_again: bool = False
    ) -> list[Message]:
        """The messages that were neither applied nor deferred before.

        With `only_sent_again` only those are looked up that were sent again after a loss.
        """
        wanted: dict[int, Message] = {}
        for message in messages:
            earlier = earlier_ids(message)
            if earlier or not only_sent_again:
                wanted |= dict.fromkeys((message.message_id, *earlier), message)
        if not wanted:
            return list(messages)
        states = self._offsets.states_by_id(conn, broker_id, wanted)
        known = {one for one, (state, _) in states.items() if state == "applied" or wanted[one].message_id == one}
        known |= self._journal.recognise(conn, wanted, broker_id)
        left_out = {wanted[one].message_id for one in known}
        return [message for message in messages if message.message_id not in left_out]


def earlier_ids(message: Message) -> list[int]:
    """The ids that a message had before its broker lost it."""
    if EARLIER_IDS not in (message.raw_headers or ""):
        return []
    headers = message.headers
    found = headers.get(EARLIER_IDS) if isinstance(headers, dict) else None
    listed = found if isinstance(found, list) else []
    return [one for one in listed if type(one) is int and 0 < one < 2**63]
