"""Everything that is stuck now, each with its causes: `mqpg why` without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import mqpg
from mqpg.cli.connecting import rows
from mqpg.cli.names import did_you_mean
from mqpg.status import Finding, Overview, findings, read_overview
from mqpg.status.half_messages import UNDECIDED
from mqpg.status.live_checks import SENT_LONG_AGO, senders
from mqpg.status.merging import merged
from mqpg.values.cause import Cause
from mqpg.values.cause_sentences import explain
from mqpg.values.errors import UnknownHandle, UnknownTopic
from mqpg.values.words import duration

__all__ = ["Stuck", "described", "everything_stuck"]

_PATIENCE = 10  # seconds after which a message waits for long, for somebody who asks
_MOST_GROUPS, _MOST_HALVES = 20, 3
_OF_GROUPS = ("group", "filter")  # checks of the status whose causes mqpg.why knows
_OF_HALVES = ("overdue half messages", "parked half messages")
_HALVES = f"""
select h.handle, h.topic from ({UNDECIDED}) as h
where h.producer_group is not distinct from %(producer_group)s::text
    and (h.parked_at is not null or h.check_at < clock_timestamp() - interval '{_PATIENCE} seconds')
order by h.prepared_at limit %(limit)s
"""


@dataclass(frozen=True)
class Stuck:
    """One thing that is stuck."""

    found: str  # what is so
    advice: str | None  # What to do. None: the causes say it.
    causes: list[dict[str, Any]] = field(default_factory=list)  # what holds it up, each with what would move it


def described(cause: Cause) -> dict[str, Any]:
    """Describe a cause: its word, its facts, the call that would move it, and advice that says so in words."""
    said = explain(cause)
    if cause.cause == "not_subscribed":
        question = did_you_mean(cause.detail["consumer_group"], cause.detail.get("groups") or [])
        said = f"{question} {said}".lstrip()
    call = cause.remedy and asdict(cause.remedy)
    return {"cause": cause.cause, "detail": cause.detail, "remedy": call, "advice": said}


def everything_stuck(mq: mqpg.Client) -> Iterator[Stuck]:
    """Look for everything that is stuck, and ask why.

    First comes what `mqpg status` says needs attention, the most urgent first, then what has been
    waiting for ten seconds. The role needs the right of an operator or an auditor.
    """
    overview = read_overview(partial(rows, mq))
    groups, producers = set[tuple[str, str]](), set[str | None]()
    for one in findings(overview):
        yield _explained(mq, one, groups)
        producer = one.about.get("producer_group")
        if one.check in _OF_HALVES and producer not in producers:
            producers.add(producer)
            yield from _halves(mq, producer)
    yield from _waiting(mq, overview, groups)
    yield from _senders(mq)


def _explained(mq: mqpg.Client, one: Finding, asked: set[tuple[str, str]]) -> Stuck:
    """What the status says, with the causes where a group stands that was not asked about yet."""
    if one.check not in _OF_GROUPS:
        return Stuck(one.found, one.remedy)
    group, topic = one.about["consumer_group"], one.about["topic"]
    causes = [] if (group, topic) in asked else _causes(partial(mq.why, group, topic))
    asked.add((group, topic))
    return Stuck(one.found, None if causes else one.remedy, causes)


def _halves(mq: mqpg.Client, producer_group: str | None) -> Iterator[Stuck]:
    """The oldest half messages of a producer group that wait. None: of groups that were dropped."""
    for one in rows(mq, _HALVES, {"producer_group": producer_group, "limit": _MOST_HALVES}):
        causes = _causes(partial(mq.why, one["handle"]))
        if causes:
            yield Stuck(f"half message {one['handle']} of topic {one['topic']}", None, causes)


def _waiting(mq: mqpg.Client, overview: Overview, asked: set[tuple[str, str]]) -> Iterator[Stuck]:
    """Groups whose oldest message waits for some seconds, where something holds them up."""
    for one in overview.groups[:_MOST_GROUPS]:
        group, topic, seconds = one["consumer_group"], one["topic"], one["oldest_unread_seconds"]
        if seconds is not None and seconds > _PATIENCE and (group, topic) not in asked:
            causes = _causes(partial(mq.why, group, topic))
            if causes:
                yield Stuck(
                    f"group {group} of topic {topic}: its oldest message waits for {duration(seconds)}", None, causes
                )


def _senders(mq: mqpg.Client) -> Iterator[Stuck]:
    """Sessions that have sent something some seconds ago and have not committed.

    Those of a minute are among the findings.
    """
    for one in senders(partial(rows, mq), _PATIENCE, SENT_LONG_AGO):
        yield Stuck(one.found, one.remedy)


def _causes(ask: Callable[[], list[Cause]]) -> list[dict[str, Any]]:
    """Ask why. What is gone meanwhile has no cause."""
    try:
        return [described(one) for one in merged(ask())]
    except (UnknownHandle, UnknownTopic):
        return []
