"""Rules of administration: subscriptions in all modes, seek, pause, purge, dead letters, the keeper."""

from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.stateful.consumers import WHICH, one_of
from tests.stateful.invariants import Invariants
from tests.stateful.machine import LOCKED, QUEUES, seconds
from tests.stateful.model import Item, Lane, Sub
from tests.stateful.settling import RETRY_DELAY, Settling

__all__ = ["Admin"]

# group: mode, most attempts, what happens on a failure, payloads that the filter leaves out
SUBS = {
    "exclusive": ("exclusive", 1000, "skip", 0),
    "mortal": ("exclusive", 3, "skip", 0),
    "pinned": ("pinned", 1000, "skip", 0),
    "shared": ("shared", 1000, "skip", 0),
    "shared-mortal": ("shared", 2, "skip", 0),
    "filter": ("exclusive", 1000, "skip", 2),
    "shared-filter": ("shared", 1000, "skip", 3),
    "broadcast": ("broadcast", 1000, "skip", 0),
    "by-key": ("exclusive", 3, "block_key", 0),
    "by-queue": ("exclusive", 3, "block_queue", 0),
}
GROUPS = st.sampled_from(sorted(SUBS))


class Admin(Settling, Invariants):
    """Changes that are made while everything else continues."""

    @initialize(groups=st.sets(GROUPS, min_size=2, max_size=4))
    def begin_history(self, groups: set[str]) -> None:
        self.mq.call("create_topic", self.topic, queues=QUEUES)
        self.topic_id = self.mq.scalar("select topic_id from mqpg.topic where name = %s", self.topic)
        for group in sorted(groups):
            self.subscribe(group, "earliest")

    @rule(group=GROUPS, start=st.sampled_from(["earliest", "latest"]))
    def subscribe(self, group: str, start: str) -> None:
        if group in self.model.subs or len(self.model.subs) > 5:
            return
        mode, most, on_failure, every = SUBS[group]
        named: dict[str, object] = {"filter": f"$ % {every} != 0"} if every else {}
        settings = {"mode": mode, "start": start, "max_attempts": most, "on_failure": on_failure}
        self.parties["main"].call("subscribe", group, self.topic, **settings, **named, retry_delay=seconds(RETRY_DELAY))
        sql = "select subscription_id from mqpg.subscription where topic_id = %s and consumer_group = %s"
        number = self.mq.scalar(sql, self.topic_id, group)
        sub = self.model.subs[group] = Sub(group, mode, most, number, on_failure, every, made=self.model.stamp())
        for queue_id in range(-1, QUEUES):
            rows = [] if queue_id < 0 else self.model.queues[queue_id]
            oldest = 0 if queue_id < 0 else self.oldest(queue_id)
            sub.lanes[queue_id] = Lane(sub, queue_id, len(rows) if start == "latest" else oldest)

    @rule(rarely=st.integers(0, 3), which=WHICH)
    def unsubscribe(self, rarely: int, which: int) -> None:
        """The claims are gone, and their receipts fit no subscription."""
        if rarely or len(self.model.subs) < 2:
            return
        sub = one_of(self.model.subs, which)
        if self._busy(sub):
            return
        self.parties["main"].call("unsubscribe", sub.group, self.topic)
        del self.model.subs[sub.group]
        for one in [sub, *sub.members.values()]:
            one.gone = True
            self.model.gone.add(one.subscription_id)
            self.model.waiting = [item for item in self.model.waiting if item.sub is not one]

    def _joining(self, sub: Sub) -> bool:
        """Return whether an open transaction has made a member of the broadcast group."""
        return any(
            lock[:2] == ("member", sub.subscription_id)
            for tx in self.model.open
            for lock in tx.locks
            if isinstance(lock, tuple)
        )

    def _busy(self, sub: Sub) -> bool:
        """Return whether an open transaction has a row that refers to it."""
        everybody = [sub, *sub.members.values()]
        numbers = {one.subscription_id for one in everybody}
        return any(
            lock[0] in ("cursor", "member") and lock[1] in numbers
            for tx in self.model.open
            for lock in tx.locks
            if isinstance(lock, tuple)
        )

    # positions

    @precondition(lambda self: self.model.subs)
    @rule(rarely=st.integers(0, 2), which=WHICH, where=st.sampled_from(["earliest", "latest", "offset"]))
    def seek(self, rarely: int, which: int, where: str) -> None:
        """A seek is the only way for a position to go back (I7).

        Receipts are stale, and waiting retries continue.
        """
        sub = one_of(self.model.subs, which)
        if rarely or sub.max_attempts < 1000:
            return
        target, queue_id = where, None
        if where == "offset":
            queue_id = which % QUEUES
            target = str(which % (len(self.model.queues[queue_id]) + 1))
        with self.calling("main") as (_, tx):
            lanes = [*self._lanes(sub, queue_id)]
            if self._joining(sub) or any(self.cursor_locked(lane, tx) for lane in lanes):
                self.refused("main", {LOCKED}, "seek", sub.group, self.topic, target, queue_id)
                return
            self.attempt("main", set(), "seek", sub.group, self.topic, target, queue_id)
            for lane in lanes:
                tail, oldest = len(self.model.rows(lane)), self.oldest(lane.queue_id)
                to = tail if where == "latest" else oldest if where == "earliest" else max(oldest, int(target))
                self.model.touch(tx, lane)
                self._move(lane, to)

    def _lanes(self, sub: Sub, queue_id: int | None) -> Iterator[Lane]:
        """Return the lanes of a subscription.

        A broadcast group also has its own one, where new members begin. A member that joins just
        now is not visible.
        """
        for one in [sub, *(member for member in sub.members.values() if not self.is_joining(member))]:
            for lane in one.lanes.values():
                if lane.queue_id == queue_id or (queue_id is None and lane.queue_id >= 0):
                    yield lane

    def _move(self, lane: Lane, to: int) -> None:
        lane.claimed = to
        for claim in lane.claims:
            if claim.state == "open":
                self.take_over(claim)
        lane.cells.clear()

    @rule(rarely=st.integers(0, 7))
    def purge_topic(self, rarely: int) -> None:
        """Everything with an offset counts as consumed, and waiting retries will not come."""
        if rarely:
            return
        subs = [one for sub in self.model.subs.values() for one in dict.fromkeys([sub, *sub.members.values()])]
        with self.calling("main") as (_, tx):
            lanes = [lane for one in subs for lane in one.lanes.values()]
            joining = any(lock[0] == "member" for o in self.model.open for lock in o.locks if isinstance(lock, tuple))
            if any(self.cursor_locked(lane, tx) for lane in lanes) or joining:
                return
            self.attempt("main", set(), "purge_topic", self.topic)
            for lane in lanes:
                self.model.touch(tx, lane)
                self._move(lane, len(self.model.rows(lane)))
            self.model.waiting = [item for item in self.model.waiting if item.sub is None]
            self.model.purged.update(message.message_id for queue in self.model.queues for message in queue)

    # pauses

    @precondition(lambda self: self.model.subs)
    @rule(which=WHICH, pause=st.integers(0, 3), topic=st.sampled_from([False, False, True]))
    def pause_or_resume(self, which: int, pause: int, topic: bool) -> None:
        """Sends and acknowledgements continue, and receive returns nothing."""
        pause = not pause
        sub = one_of(self.model.subs, which)
        named = {} if topic else {"consumer_group": sub.group}
        if not topic and self._joining(sub):
            self.refused("main", {LOCKED}, "pause" if pause else "resume", self.topic, **named)
            return
        self.parties["main"].call("pause" if pause else "resume", self.topic, **named)
        if topic:
            self.paused = pause
        else:
            sub.paused = pause

    # dead letters

    @rule(which=WHICH, drive=st.booleans(), some=st.booleans())
    def redrive_or_discard(self, which: int, drive: bool, some: bool) -> None:
        """A dead letter goes back into the retry lane with all attempts again, or is discarded.

        Which rules there are to choose from must not depend on the clock, as dead letters do.
        """
        with_dead = {group: sub for group, sub in self.model.subs.items() if sub.dead}
        if not with_dead:
            return
        sub = one_of(with_dead, which)
        dead = sorted(self.model.dead_for(None, sub))
        ids = dead[: len(dead) // 2 + 1] if some else dead
        named = {"message_ids": [*ids, 1]} if some else {}
        before = self.now()
        function = "redrive" if drive else "discard_dead_letters"
        assert self.parties["main"].call(function, sub.group, self.topic, **named)[0][0] == len(ids)
        sub.dead -= set(ids)
        if drive:
            due = (before, self.now())
            self.model.waiting += [Item(self.model.messages[i], sub, 1, due) for i in ids]

    # the keeper

    @rule(rarely=st.integers(0, 7), old=st.booleans())
    def keep(self, rarely: int, old: bool) -> None:
        """Call the keeper once.

        With `old` everything in use counts as old enough to be closed and is past its retention.
        """
        if rarely:
            return
        if old:
            self._age("0 s")
        try:
            for _ in range(4 if old else 1):
                self.parties["main"].call("keep")
        finally:
            if old:
                self._age("6 hours", "7 days")

    def _age(self, age: str, retention: str = "0 s") -> None:
        sql = "update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')"
        self.mq.execute(sql, age)
        self.mq.execute("update mqpg.topic set retention = %s::interval where name = %s", retention, self.topic)
