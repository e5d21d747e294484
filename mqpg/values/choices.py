"""The closed sets of words that calls take and return, as types for editors and type checkers."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "AckTiming",
    "Checker",
    "Decision",
    "Effect",
    "FoundState",
    "HalfStateName",
    "LedgerEntry",
    "Mode",
    "OnExhausted",
    "OnExpired",
    "OnFailure",
    "TopicKind",
    "UnsettledState",
    "WithoutJournal",
]

TopicKind = Literal["normal", "relay"]
"""What a topic carries. In a relay topic PREPARE, COMMIT and ROLLBACK travel to the consumers
(protocol T4).
"""

Mode = Literal["exclusive", "shared", "pinned", "broadcast"]
"""How the members of a consumer group share a topic's queues."""

OnFailure = Literal["skip", "block_key", "block_queue"]
"""What waits while a failed message is retried: nothing, the messages of its key, or its whole
queue.
"""

OnExpired = Literal["skip", "dead_letter"]
"""What becomes of a message that expired: no consumer of a group received it within the topic's
`message_ttl`.
"""

Checker = Literal["due_checks", "ledger", "function", "url"]
"""Who answers for a producer group's undecided half messages (protocol T3)."""

OnExhausted = Literal["park", "rollback"]
"""What becomes of a half message after `max_checks` check-backs without an answer."""

Decision = Literal["commit", "rollback"]
"""What becomes of a half message that is decided by hand."""

Effect = Literal["broker", "database", "external"]
"""Where a handler's effect happens: C1 in the broker's database, C2 in another one, C3 anywhere."""

AckTiming = Literal["each", "delivery", "receive"]
"""When a C3 consumer acknowledges: after each message, after the delivery, or before its handler
runs.
"""

HalfStateName = Literal["undecided", "committed", "rolled_back", "forgotten", "unknown"]
"""What became of a half message."""

UnsettledState = Literal["undecided", "rolled_back", "absent"]
"""What the broker knows of a half message whose local transaction has committed (protocol T6)."""

FoundState = Literal["prepared", "rolled_back", "committed", "delayed", "recalled", "pending", "appended"]
"""How far a message that `find_by_key` finds has come."""

LedgerEntry = Literal["local", "fence"]
"""What a ledger row is: a local transaction's, or a check-back's ruling that it rolls back."""

WithoutJournal = Literal["skip", "repeat"]
"""What a consumer without a journal does with messages that it may have applied or not."""
