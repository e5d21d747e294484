"""Reading everything that one audit needs: which databases, and in which order.

The databases have no common clock. The order of their snapshots makes them comparable:

1. Positions: the broker's cursors. A message is applied before the cursor moves beyond it, so a
   journal that is read later must contain it.
2. Consumers: journals and offsets. The message of an effect was committed before the effect, so a
   broker that is read later must contain that commit.
3. The broker's log. A half message is committed after its local transaction, so a ledger that is
   read later must contain its row.
4. Ledgers. Their rows may be younger than the broker's snapshot. So a row without a half message is
   an anomaly only if it was written before that snapshot, or if nothing is running any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, LiteralString

from psycopg import sql

from mqpg.audit.options import AuditOptions, Urls, every_url, groups_by_url, joined_groups
from mqpg.audit.report import NO_JOURNAL, NO_LEDGER, NO_SUBSCRIPTION, NotJudged, SnapshotRecord
from mqpg.audit.state import Judged
from mqpg.connection.dsn import describe, to_sqlalchemy
from mqpg.values.errors import DatabaseError, LedgerError, NotFound, UnknownProducerGroup, UnknownTopic

from .amounts import check_amount
from .fingerprint import add
from .into import check_table
from .judged import check_broker, check_users, leave_out
from .postgresql_source import PostgresqlSource
from .sources import Source, open_source
from .workspace import Workspace

__all__ = ["Inputs", "connect_once", "read_inputs"]

_OTHER_SERVER_TOLERANCE = 5.0
_SUBSCRIBED: LiteralString = """
select s.consumer_group, bool_or(%s::text[] is null or s.topic = any(%s::text[])) as in_scope
from (
    select r.consumer_group, r.topic from mqpg_audit.subscription as r
    union all select g.consumer_group, g.topic from mqpg_audit.broadcast_group as g
) as s
group by 1
"""
_TOPICS: LiteralString = "select topic, topic_id from mqpg_audit.topic where dropped_at is null"
# The producer groups with half messages in the audited topics.
_PRODUCING: LiteralString = """
select distinct p.producer_group as name
from mqpg_audit.producer_group as p
join (
    select b.producer_group_id, b.topic_id from mqpg_audit.record_batch as b where b.kind = 'half' group by 1, 2
) as m on m.producer_group_id = p.producer_group_id
join mqpg_audit.topic as t on t.topic_id = m.topic_id and t.dropped_at is null
where %s::text[] is null or t.topic = any(%s::text[])
order by 1
"""
# The newest cursor of each queue. start_offset is null if the first version is gone.
_CURSORS = sql.SQL("""
select distinct on (c.subscription_id, c.queue_id) c.subscription_id, c.queue_id, c.committed_offset,
    (select s.committed_offset from mqpg_audit.position_change s where s.subscription_id = c.subscription_id
        and s.queue_id = c.queue_id and s.version = 1 and s.action = 'subscribe' limit 1), c.version
from mqpg_audit.position_change c order by c.subscription_id, c.queue_id, c.version desc
""")


@dataclass
class Inputs:
    """What was read, besides the temporary tables."""

    snapshots: list[SnapshotRecord] = field(default_factory=list)  # in order
    rows: dict[str, int] = field(default_factory=dict)  # how many each read returned
    doubts: list[str] = field(default_factory=list)  # why these snapshots cannot support a verdict
    broker: dict[str, Any] = field(default_factory=dict)  # what the report says about it
    not_judged: list[NotJudged] = field(default_factory=list)  # as far as is known before the frames are derived
    scope: dict[str, Any] = field(default_factory=dict)  # the names of what is audited
    outboxes: dict[str, str] = field(default_factory=dict)  # those whose counters may be compared: name by URL


def connect_once(dsn: str, options: AuditOptions) -> None:
    """Connect to every other database once, so that a wrong URL is reported at once."""
    for url in every_url(options) - {dsn}:
        with open_source(url):
            pass


def read_inputs(work: Workspace, dsn: str, options: AuditOptions, judged: Judged | None = None) -> Inputs:
    """Read everything into the temporary tables, in the order of the snapshots.

    What is judged is left out and only compared. Raises Rejudge if it must be judged again.
    """
    if options.amount is not None:
        check_amount(work, options.amount)
    if options.into is not None:
        check_table(work, options.into)
    return _Reader(work, dsn, options, judged).run()


@dataclass
class _Reader:
    work: Workspace
    dsn: str
    options: AuditOptions
    judged: Judged | None
    inputs: Inputs = field(default_factory=Inputs)
    journal_rows: dict[str, int] = field(default_factory=dict)
    digests: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    # Of consumer groups: tolerance, and whether a journal is in a broker's database.
    journals: dict[str, tuple[float, bool]] = field(default_factory=dict)
    # By label: tolerance; whether it is the broker's own; producer groups.
    ledger_groups: dict[str, tuple[float, bool, list[str]]] = field(default_factory=dict)
    # By label: tolerance; the identities of outboxes beside a ledger (None: it is alone); producer groups.
    outbox_groups: dict[str, tuple[float, set[str | None], list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topics = list(self.options.topics) or None

    def run(self) -> Inputs:
        leave_out(self.work, self.judged)
        with PostgresqlSource.open(self.dsn) as positions:
            self._record("positions", positions)
            self._identify(positions)
            journals, ledgers = self._journals(positions), self._ledgers(positions)
            self.inputs.rows["cursor"] = self.work.insert_copy("cursor_now", positions.connection, _CURSORS)
        for url, groups in journals.items():
            self._read_journal(url, groups)
        self.work.insert("journal_group", [(group, *one) for group, one in self.journals.items()])
        self._compare("applied")
        self._note_strange_journals()
        self._read_broker()
        for url, groups in ledgers.items():
            self._read_ledger(url, groups)
        self._insert_ledger_groups()
        self._compare("ledger_row")
        return self.inputs

    def _compare(self, table: str) -> None:
        if self.judged is not None:
            check_users(self.work, self.judged, table, self.digests.get(table, {}))

    def _hold_digests(self, source: Source) -> None:
        for table, found in source.digests.items():
            add(self.digests.setdefault(table, {}), found)

    def _record(self, role: str, source: Source) -> None:
        self.inputs.snapshots.append(SnapshotRecord(role, source.name, source.snapshot, source.taken_at))

    def _identify(self, broker: PostgresqlSource) -> None:
        found = broker.rows("select broker_id, incarnation, system_identifier from mqpg_audit.version")
        if not found:
            raise DatabaseError(f"{broker.name}: the row of mqpg.broker is gone")
        row = found[0]
        self.system_identifier = broker.system_identifier
        self.inputs.broker = {
            "database": broker.name,
            "broker_id": row["broker_id"],
            "incarnation": row["incarnation"],
            "system_identifier": str(row["system_identifier"]),
            "server_version": broker.connection.info.parameter_status("server_version"),
        }
        if row["system_identifier"] != broker.system_identifier:
            self.inputs.doubts.append(
                "the broker was restored into another cluster: its transaction ids mean nothing here"
            )
        topics = {row["topic"]: row["topic_id"] for row in broker.rows(_TOPICS)}
        for topic in self.options.topics:
            if topic not in topics:
                raise UnknownTopic(f"no topic {topic!r} in {broker.name}")
        if self.options.topics:
            others = [(topic_id,) for name, topic_id in topics.items() if name not in self.options.topics]
            self.work.insert("other_topic", others)
        self.inputs.scope = {"broker_id": row["broker_id"], "topics": sorted(self.options.topics or topics)}

    def _journals(self, broker: PostgresqlSource) -> dict[str, list[str]]:
        """Consumer groups by URL. A journal in the broker's own database is always included."""
        scopes = {row["consumer_group"]: row["in_scope"] for row in broker.rows(_SUBSCRIBED, self.topics, self.topics)}
        subscribed = self.subscribed = set(scopes)
        wanted: dict[str, Any] = dict(self.options.applied)
        asked = self.options.groups
        for group in (*wanted, *asked):
            if group not in subscribed:
                raise NotFound(f"no subscription of a consumer group {group!r} in {broker.name}")
        for group in asked:
            if not scopes[group]:
                raise NotFound(f"consumer group {group!r} reads none of the audited topics in {broker.name}")
        if asked:
            self.work.insert("other_group", [(group,) for group in sorted(subscribed - set(asked))])
        own = self._count_journal(broker)
        wanted = dict.fromkeys(sorted(subscribed & set(own)), self.dsn) | wanted
        wanted = {group: url for group, url in wanted.items() if not asked or group in asked}
        chosen = sorted(set(asked)) or sorted(group for group, in_scope in scopes.items() if in_scope)
        self.inputs.scope |= {"groups": chosen, "journals": sorted(wanted)}
        self.inputs.not_judged += [NotJudged(NO_JOURNAL, group) for group in chosen if group not in wanted]
        return groups_by_url(wanted)

    def _count_journal(self, source: Source) -> dict[str, int]:
        found = source.journal_rows(self.topics, self.inputs.broker["broker_id"])
        for group, rows in found.items():
            self.journal_rows[group] = self.journal_rows.get(group, 0) + rows
        return found

    def _note_strange_journals(self) -> None:
        """Note the journals of groups that are not subscribed, unless some groups are chosen."""
        if not self.options.groups:
            self.inputs.not_judged += [
                NotJudged(NO_SUBSCRIPTION, group, rows)
                for group, rows in sorted(self.journal_rows.items())
                if group not in self.subscribed
            ]

    def _ledgers(self, broker: PostgresqlSource) -> dict[str, list[str]]:
        """Producer groups by URL. Groups that the broker's ledger checks are always included."""
        rows = broker.rows("select producer_group_id, producer_group as name, checker from mqpg_audit.producer_group")
        self.producer_groups = {row["name"]: row["producer_group_id"] for row in rows}
        for group in self.options.ledgers:
            if group not in self.producer_groups:
                raise UnknownProducerGroup(f"no producer group {group!r} in {broker.name}")
        own = self.own = dict.fromkeys((row["name"] for row in rows if row["checker"] == "ledger"), self.dsn)
        wanted: Urls = {**own, **self.options.ledgers}
        producing = [row["name"] for row in broker.rows(_PRODUCING, self.topics, self.topics)]
        self.inputs.scope |= {"producer_groups": producing, "ledgers": sorted(wanted)}
        self.inputs.not_judged += [NotJudged(NO_LEDGER, name) for name in producing if name not in wanted]
        return joined_groups(wanted)

    def _read_journal(self, url: str, groups: list[str]) -> None:
        with open_source(url) as source:
            self._record("consumer", source)
            if url != self.dsn:  # The journal in the broker's own database is counted already.
                self._count_journal(source)
            for group in groups:
                tolerance, in_broker = self.journals.get(group, (0.0, False))
                self.journals[group] = max(tolerance, self._tolerance(source)), in_broker or source.is_broker
            for table in ("applied", "stored_offset", "deferred"):
                broker_id = self.inputs.broker["broker_id"]
                rows = source.copy_consumers(self.work, table, groups, self.topics, broker_id, self.judged)
                if rows is not None:
                    self._add_rows(f"{table} {','.join(groups)}", rows)
                elif table == "applied":
                    raise LedgerError(
                        f"{describe(to_sqlalchemy(url))} has no table mqpg_applied (consumer group "
                        f"{', '.join(groups)}): the audit needs consumers that keep a journal"
                    )
            self._hold_digests(source)

    def _read_broker(self) -> None:
        judged = self.judged
        then = None if judged is None else lambda: check_broker(self.work, judged)
        read = self.work.read_broker(then)
        self.inputs.snapshots.append(SnapshotRecord("broker", self.work.name, read.snapshot, read.taken_at))
        self.inputs.rows |= read.rows
        options, broker = self.options, self.inputs.broker
        overdue = None if options.drained else read.taken_at - options.slack
        purged = read.taken_at - options.ledger_keep
        everything = not options.topics
        row = (broker["broker_id"], broker["incarnation"], read.taken_at, everything, options.drained, overdue, purged)
        self.work.insert("run", [row])

    def _read_ledger(self, url: str, groups: list[str]) -> None:
        label = ",".join(groups)
        with open_source(url) as source:
            self._record("ledger", source)
            broker_id = self.inputs.broker["broker_id"]
            has_outbox = source.has_table("mqpg_outbox")
            ledger = source.copy_ledger(
                self.work,
                label,
                broker_id,
                # No group with the checker `ledger` has an outbox.
                also_the_brokers=not has_outbox or not self.own.keys().isdisjoint(groups),
                judged=self.judged,
            )
            self._hold_digests(source)
            if has_outbox:
                self._read_outbox(url, source, label, groups, alone=ledger is None)
            elif ledger is None:
                raise LedgerError(
                    f"{describe(to_sqlalchemy(url))} has no table mqpg_ledger or mqpg_outbox (producer group {label})"
                )
            if ledger is not None:
                self._add_rows(f"ledger {label}", ledger[0])
                tolerance = self.ledger_groups.get(label, (0.0,))[0]
                self.ledger_groups[label] = (max(tolerance, self._tolerance(source)), ledger[1], groups)

    def _read_outbox(self, url: str, source: Source, label: str, groups: list[str], *, alone: bool) -> None:
        """Read an outbox. One beside a ledger has the half messages that carry its identity, and a name of its own."""
        named = label if alone else f"{label} (outbox)"
        self._add_rows(f"outbox {label}", source.copy_outbox(self.work, named, self.inputs.broker["broker_id"]))
        tolerance, identities, _ = self.outbox_groups.get(named, (0.0, set(), groups))
        identities.update([None] if alone else source.outbox_identities())
        self.outbox_groups[named] = (max(tolerance, self._tolerance(source)), identities, groups)
        # Its counters do not tell the groups apart.
        if alone or not any(one.what == NO_LEDGER for one in self.inputs.not_judged):
            self.inputs.outboxes[url] = named

    def _insert_ledger_groups(self) -> None:
        """Fill the tables that say which ledger and which outbox each producer group has, in however many databases."""
        ids = self.producer_groups
        for label, (tolerance, in_broker, groups) in self.ledger_groups.items():
            self.outbox_groups.pop(label, None)
            self.work.insert("ledger_source", [(label, tolerance)])
            self.work.insert("ledger_group", [(ids[name], label, in_broker) for name in groups])
        for label, (tolerance, identities, groups) in self.outbox_groups.items():
            self.work.insert("ledger_source", [(label, tolerance)])
            self.work.insert("outbox_group", [(ids[name], label, False, one) for name in groups for one in identities])

    def _add_rows(self, what: str, rows: int) -> None:
        self.inputs.rows[what] = self.inputs.rows.get(what, 0) + rows

    def _tolerance(self, source: Source) -> float:
        if self.options.clock_tolerance is not None:
            return self.options.clock_tolerance
        return 0.0 if source.system_identifier == self.system_identifier else _OTHER_SERVER_TOLERANCE
