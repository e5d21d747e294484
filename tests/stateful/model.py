"""A small model of the queue: what must be where after any sequence of calls.

It knows nothing of batches, ticks, snapshots or versions. Effects are written at once and undone
when their transaction rolls back. The locks in `Tx.locks` model that no other transaction sees them
before. Offsets, ids and receipts are learnt from the real queue and compared with what the model
says is possible.

Times are seconds of the database's clock, as a pair (earliest, latest), because the moment inside a
call is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from tests.support.broker import message_id

__all__ = ["Cell", "Claim", "Half", "Item", "Lane", "Message", "Model", "Sub", "Tx", "NEVER", "message_id"]

NEVER = float("inf")
Span = tuple[float, float]


@dataclass(eq=False)
class Tx:
    """A transaction, of one call or left open over many."""

    number: int  # the stamp of its begin, when a repeatable one took its snapshot
    repeatable: bool = False
    begun: int = 0  # a stamp before it took its xid
    done: int | None = None  # a stamp after its commit returned
    undo: list[Callable[[], object]] = field(default_factory=list)
    effects: list[Callable[[], None]] = field(default_factory=list)  # at its commit
    locks: set[Hashable] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)  # id() of what has its undo already
    dying: set[tuple[int, int]] = field(default_factory=set)  # its dead letters: subscription, message
    passed: bool = False  # the appender ran in it: it may only end


@dataclass(eq=False)
class Message:
    """One message; `tx` and `place` say when it was sent or decided (I6)."""

    message_id: int
    key: str | None
    payload: int
    tag: str | None = None
    tx: Tx | None = None
    place: int = 0
    delayed: bool = False
    offset: tuple[int, int] | None = None  # queue and offset, once appended


@dataclass(eq=False)
class Half:
    """A half message. `check_at` is when the broker counts it as overdue.

    `payload` is what it was prepared with; a decision may give its message another.
    """

    handle: str
    message: Message
    group: str
    prepared: Tx
    check_at: Span
    delay: float | None = None
    payload: int = field(init=False)
    decision: str | None = None  # committed | rolled_back
    ledger: str | None = None  # local | fence
    checks: int = 0
    asked: int = 0
    parked: bool = False

    def __post_init__(self) -> None:
        self.payload = self.message.payload

    @property
    def message_id(self) -> int:
        return self.message.message_id


@dataclass(eq=False)
class Item:
    """A message, or a retry of one subscription, that the appender has not given an offset yet."""

    message: Message
    sub: Sub | None = None
    attempt: int = 1
    due: Span = (0.0, 0.0)


@dataclass(eq=False)
class Claim:
    """A delivery whose receipt a consumer holds.

    The cells that name it are what it still covers.
    """

    receipt: str
    lane: Lane
    end: Span
    state: str = "open"  # open | spent | stale | void (its transaction rolled back)
    doubtful: bool = False  # a receive may have taken it over without giving any of it out
    consumer: str | None = None

    @property
    def offsets(self) -> list[int]:
        return sorted(offset for offset, cell in self.lane.cells.items() if cell.claim is self)

    def alive(self, at: float) -> bool:
        """Return whether its lease may still run at that time."""
        return self.state == "open" and self.end[1] > at


@dataclass(eq=False)
class Cell:
    """An offset that was handed out and is not done.

    `tries` counts its deliveries on this lane. Without a claim it is free after `until`: a failed
    message under block_key or block_queue backs off there.
    """

    tries: int
    claim: Claim | None
    until: Span = (0.0, 0.0)


@dataclass(eq=False)
class Lane:
    """One subscription's position on one queue (or on its retry lane, -1)."""

    sub: Sub
    queue_id: int
    claimed: int
    cells: dict[int, Cell] = field(default_factory=dict)
    owner: str | None = None
    claims: list[Claim] = field(default_factory=list)

    @property
    def committed(self) -> int:
        return min(self.cells, default=self.claimed)

    @property
    def by_owner(self) -> bool:
        """Whether each message is for the owner of its queue: the retry lane in mode pinned."""
        return self.queue_id < 0 and self.sub.mode == "pinned"

    def keep(self) -> Callable[[], None]:
        """Return a function that brings the lane back to where it is now."""
        claimed, owner, claims = self.claimed, self.owner, [(c, c.state, c.end) for c in self.claims]
        cells = {offset: Cell(cell.tries, cell.claim, cell.until) for offset, cell in self.cells.items()}

        def back() -> None:
            for claim in self.claims:
                claim.state = "void"
            for claim, state, end in claims:
                claim.state, claim.end = state, end
            self.claimed, self.owner, self.cells = claimed, owner, cells
            self.claims = [claim for claim, _, _ in claims]

        return back


@dataclass(eq=False)
class Sub:
    """A subscription or a member of a broadcast group, with its lanes, its retry lane's rows and
    its dead letters.
    """

    group: str
    mode: str
    max_attempts: int
    subscription_id: int
    on_failure: str = "skip"
    every: int = 0  # its filter leaves out each payload that this divides
    lanes: dict[int, Lane] = field(default_factory=dict)
    retries: list[tuple[Message, int]] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    made: int = 0  # stamp
    gone: bool = False
    paused: bool = False
    name: str | None = None  # of a member
    members: dict[str, Sub] = field(default_factory=dict)

    def chooses(self, message: Message) -> bool:
        return not self.every or message.payload % self.every != 0

    def everybody(self) -> list[Sub]:
        """Return those that have positions: the members of a broadcast group, or else the
        subscription itself.
        """
        return list(self.members.values()) if self.mode == "broadcast" else [self]


class Model:
    """Everything that one history has made."""

    def __init__(self, queues: int) -> None:
        self._stamps = itertools.count(1)
        self.messages: dict[int, Message] = {}
        self.halves: dict[str, Half] = {}
        self.waiting: list[Item] = []
        self.queues: list[list[Message]] = [[] for _ in range(queues)]
        self.subs: dict[str, Sub] = {}
        self.gone: set[int] = set()  # subscriptions that ended: retries of theirs may still get an offset
        self.claims: dict[str, Claim] = {}
        self.dedup: dict[str, int | None] = {}
        self.purged: set[int] = set()
        self.recalled: dict[int, Tx] = {}
        self.open: list[Tx] = []
        self.steps = 0

    def stamp(self) -> int:
        return next(self._stamps)

    # transactions

    def begin(self, *, repeatable: bool = False) -> Tx:
        stamp = self.stamp()
        tx = Tx(stamp, repeatable, begun=stamp)
        self.open.append(tx)
        return tx

    def commit(self, tx: Tx) -> None:
        tx.done = self.stamp()
        self.open.remove(tx)
        for effect in tx.effects:
            effect()

    def rollback(self, tx: Tx) -> None:
        self.open.remove(tx)
        for undo in reversed(tx.undo):
            undo()

    def locked(self, lock: Hashable, me: Tx | None) -> bool:
        """Return whether another open transaction holds that lock."""
        return any(lock in tx.locks for tx in self.open if tx is not me)

    def touch(self, tx: Tx, lane: Lane) -> None:
        """Prepare the undo of a lane's change."""
        if id(lane) not in tx.touched:
            tx.touched.add(id(lane))
            tx.undo.append(lane.keep())
        tx.locks.add(("cursor", lane.sub.subscription_id, lane.queue_id))

    # messages

    def rows(self, lane: Lane) -> list[Message]:
        """Return everything that was appended to a lane."""
        return [message for message, _ in lane.sub.retries] if lane.queue_id < 0 else self.queues[lane.queue_id]

    def fresh(self, lane: Lane) -> list[int]:
        """Return the offsets that were never handed out and that the filter chooses."""
        rows = self.rows(lane)
        offsets = range(lane.claimed, len(rows))
        return [o for o in offsets if lane.queue_id < 0 or lane.sub.chooses(rows[o])]

    def pending(self, lane: Lane) -> list[int]:
        """Return the offsets that are not done yet, in order."""
        return sorted(lane.cells) + self.fresh(lane)

    def attempt(self, lane: Lane, offset: int) -> int:
        """Return the attempt that the next delivery of an offset is."""
        tries = lane.cells[offset].tries if offset in lane.cells else 0
        return tries + (lane.sub.retries[offset][1] if lane.queue_id < 0 else 1)

    def queue_of(self, lane: Lane, offset: int) -> Lane:
        """Return the lane of the queue that a retry came by."""
        place = self.rows(lane)[offset].offset
        assert place is not None
        return lane.sub.lanes[place[0]]

    def wait(self, tx: Tx, item: Item) -> None:
        """Make the item wait for the appender from the commit on."""
        tx.effects.append(lambda: self.waiting.append(item))

    def sent(self, tx: Tx, message: Message, due: Span | None = None) -> None:
        """Note a message that waits for the appender once `tx` has committed."""
        message.tx, message.place, message.delayed = tx, self.stamp(), due is not None
        self.messages[message.message_id] = message
        tx.undo.append(lambda: self.messages.pop(message.message_id))
        self.wait(tx, Item(message, due=due or (0.0, 0.0)))

    def decide(self, tx: Tx, half: Half, decision: str, payload: int | None, now: Span) -> None:
        """Note the decision over a half that has none."""
        message = half.message
        before = message.payload

        def back() -> None:
            half.decision, message.payload = None, before

        tx.undo.append(back)
        tx.locks.add(("op", message.message_id))
        half.decision = decision
        if decision == "committed":
            message.payload = before if payload is None else payload
            message.tx, message.place, message.delayed = tx, self.stamp(), half.delay is not None
            self.messages[message.message_id] = message
            due = (0.0, 0.0) if half.delay is None else (now[0] + half.delay, now[1] + half.delay)
            self.wait(tx, Item(message, due=due))

    def outcome(self, half: Half, decision: str) -> str:
        """Return the outcome of a decision over it."""
        return decision if half.decision is None else f"already_{half.decision}"

    def die(self, tx: Tx, sub: Sub, message_id: int) -> None:
        """Make a dead letter."""
        sub.dead.add(message_id)
        tx.dying.add((sub.subscription_id, message_id))
        tx.undo.append(lambda: sub.dead.discard(message_id))

    def dead_for(self, tx: Tx | None, sub: Sub) -> set[int]:
        """Return the dead letters that a transaction can see. None means a later transaction."""
        hidden = {m for other in self.open if other is not tx for s, m in other.dying if s == sub.subscription_id}
        return sub.dead - hidden

    def all_subs(self) -> list[Sub]:
        return [one for sub in self.subs.values() for one in sub.everybody()]

    # what is where

    def due_items(self, at: Span) -> tuple[list[Item], list[Item]]:
        """Return what a full call between these times must move, and what it may move."""
        may = [
            item
            for item in self.waiting
            if item.due[0] <= at[1] and (item.sub is not None or item.message.message_id not in self.recalled)
        ]
        return [item for item in may if item.due[1] <= at[0]], may

    def recall_committed(self, message_id: int) -> None:
        """Note that no consumer will see the message any more."""
        self.waiting = [item for item in self.waiting if item.message.message_id != message_id or item.sub is not None]

    def prepared(self, tx: Tx, half: Half) -> None:
        self.halves[half.handle] = half
        tx.undo.append(lambda: self.halves.pop(half.handle))
