"""Names that somebody mistyped or left out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import mqpg
from mqpg.cli.connecting import rows
from mqpg.values.errors import InvalidArgument, NotGranted, UnknownTopic

__all__ = ["did_you_mean", "readers", "topic_of", "unknown_group", "unknown_topic"]

_MOST = 10  # names that a sentence lists


def topic_of(mq: mqpg.Client, group: str) -> str | None:
    """Find the topic that a group reads.

    None: the group is not known, or the role may not ask. Raises InvalidArgument if it reads several.
    """
    read = sorted(one["topic"] for one in _subscriptions(mq) if one["group"] == group)
    if len(read) > 1:
        raise InvalidArgument(f"group {group} reads several topics: {_listed(read)}; name one of them")
    return read[0] if read else None


def readers(mq: mqpg.Client, topic: str) -> str:
    """Say which groups read a topic, to somebody who gave its name for that of a group. Empty if none does."""
    groups = sorted(one["group"] for one in _subscriptions(mq) if one["topic"] == topic)
    return f"name a group that reads the topic {topic}: {_listed(groups)}" if groups else ""


def unknown_group(mq: mqpg.Client, group: str) -> str:
    """Ask for the groups that have a name like one that is not known. Empty if none has."""
    return did_you_mean(group, {one["group"] for one in _subscriptions(mq)})


def unknown_topic(mq: mqpg.Client, topic: str) -> UnknownTopic:
    """The error for a topic that does not exist, which says which topics there are."""
    try:
        known = [one["topic"] for one in rows(mq, "select distinct t.topic from mqpg.topics as t order by 1")]
    except NotGranted:
        known = []
    more = did_you_mean(topic, known) or (f"there are: {_listed(known)}" if known else "")
    return UnknownTopic(f"topic {topic} does not exist" + (f"; {more}" if more else ""))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask for the names that are like one that is not known: `did you mean mails?`. Empty if none is."""
    close = get_close_matches(name, sorted(known), n=3)
    return f"did you mean {' or '.join(close)}?" if close else ""


def _subscriptions(mq: mqpg.Client) -> list[dict[str, str]]:
    query = 'select s.consumer_group as "group", s.topic_name as topic from mqpg._subscriptions(null::text) as s'
    try:
        return rows(mq, query)
    except NotGranted:
        return []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
