"""What would move a message, in the words of the command line."""

from __future__ import annotations

from mqpg.cause import Cause

__all__ = ["remedy"]

_WORKERS = "start mqpg worker"
# What to run for a cause, with the facts of its detail. The others are told in the words of SQL.
_COMMANDS = {
    "appender_not_running": _WORKERS,
    "compensator_not_running": _WORKERS,
    "ledger_not_served": "start mqpg worker with --ledger {ledger}=URL",
    "half_parked": "look at mqpg half list --parked, then mqpg half rearm HANDLE or mqpg half settle HANDLE",
    "no_group": "run mqpg subscription add GROUP {topic}",
    "not_subscribed": "run mqpg subscription add {consumer_group} {topic}",
    "topic_paused": "run mqpg topic resume {topic}",
    "group_paused": "run mqpg subscription resume {consumer_group} {topic}",
    "owner_gone": "start the consumer {owner} again; only if it is gone for good: mqpg subscription unpin "
    "{consumer_group} {topic} --consumer {owner}",
    "dead_letter": "mend what made it fail, then run mqpg dead-letters redrive {consumer_group} {topic}",
    "skipped": "run mqpg subscription seek {consumer_group} {topic} {queue_offset} --queue {queue_id}",
    "filtered_out": "compare the filter with the message; mqpg subscription alter changes it for what comes",
    "filter_chooses_nothing": "compare the filter with what is sent; mqpg subscription alter changes it",
    "waiting_for_consumer": "start mqpg consume for group {consumer_group}",
    "no_member": "start mqpg consume for group {consumer_group}",
}


def remedy(cause: Cause, topic: str | None = None) -> str:
    """Say what would move a message.

    Args:
        cause: What holds it up.
        topic: The name of its topic. None: it is not known.

    Returns:
        A sentence: the command to run, or else what the broker says.
    """
    command = _COMMANDS.get(cause.cause)
    if command is None:
        return cause.remedy
    known = {"topic": topic or "TOPIC", "consumer_group": "GROUP"} | cause.detail
    return command.format_map(known) + (f" ({cause.remedy})" if cause.cause == "half_parked" else "")
