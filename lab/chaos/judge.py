"""Compares ids as sets: what producers noted, what their databases hold, what consumers did.

Everything is copied into one database, where SQL compares it. Nothing here asks mqpg.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from .cluster import Cluster
from .journal import read_notes
from .names import C1, C2, C3, FRESH

__all__ = ["Findings", "compare"]

_TABLES = """
create table note (word text, protocol text, topic text, first_id bigint, last_id bigint);
create table business (id bigint, protocol text, topic text, message_key text);
create table effect (nth bigint, who text, sink text, broker int, topic text, queue_id int, queue_offset bigint,
    message_key text, id bigint);
"""
_DERIVED = """
create table tried as
select n.protocol, n.topic, i as id from note n, generate_series(n.first_id, n.last_id) i where n.word = 'tried';
create table done as
select n.protocol, n.topic, i as id from note n, generate_series(n.first_id, n.last_id) i where n.word = 'done';
create table undone as
select n.protocol, n.topic, i as id from note n, generate_series(n.first_id, n.last_id) i where n.word = 'undone';
create table expected as
select id, protocol, topic from business
union all select id, protocol, topic from done where protocol = 'dedup';
create table applied as select who, id, count(*) as times from effect group by 1, 2;
create index on expected (id);
create index on applied (id);
analyze;
"""
_READERS = f"""
(values ('{C1}', 'events-%'), ('{C3}', 'events-%'), ('{C2}', '%'), ('{FRESH}', '%')) as r (who, topics)
"""
# Name of a fault: the query that lists the ids, or the keys, that show it.
_FAULTS = {
    "business that was acknowledged is gone":
        "select d.id::text from done d where d.protocol <> 'dedup' and not exists "
        "(select from business b where b.id = d.id)",
    "business that was rolled back is there":
        "select u.id::text from undone u where exists (select from business b where b.id = u.id)",
    "business twice":
        "select b.id::text from business b group by b.id having count(*) > 1",
    "effect missing":
        f"select r.who || ' ' || e.id from {_READERS} join expected e on e.topic like r.topics "
        "where not exists (select from applied a where a.who = r.who and a.id = e.id)",
    "effect of nothing":
        "select a.who || ' ' || a.id from applied a where not exists (select from expected e where e.id = a.id) "
        "and not exists (select from tried t where t.id = a.id and t.protocol = 'dedup')",
    "effect twice":
        f"select a.who || ' ' || a.id from applied a where a.who <> '{C3}' and a.times > 1",
    "effect of what was rolled back":
        "select a.who || ' ' || a.id from applied a where exists (select from undone u where u.id = a.id)",
    "effects of a key out of order":
        "select who || ' ' || message_key from (select who, message_key, queue_offset < lag(queue_offset) over ("
        "partition by who, sink, broker, topic, message_key order by nth) as back from effect "
        f"where message_key is not null and queue_id >= 0 and who <> '{C3}') e where back",
    "sends of a key out of order":
        "select e.message_key from (select message_key, id < lag(id) over ("
        "partition by broker, topic, message_key order by queue_offset) as back from effect e "
        "where who = 'c2' and queue_id >= 0 and exists (select from expected x where x.id = e.id "
        "and x.protocol = 't1') and message_key is not null) e where back",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Findings:
    """What the comparison found.

    Attributes:
        by_broker: Effects of the fresh readers by broker.
        counts: Notes and effects by kind.
        repeated: Effects that C3 had more than once, which it may.
    """

    faults: Mapping[str, int]
    examples: Mapping[str, list[str]]
    messages: int
    by_protocol: Mapping[str, int]
    by_broker: Mapping[str, int]
    counts: Mapping[str, int]
    repeated: int


def compare(cluster: Cluster) -> Findings:
    """Copy all ids, and compare them."""
    with psycopg.connect(cluster.judge, autocommit=True) as conn:
        conn.execute(_TABLES.encode())
        with conn.cursor().copy("copy note from stdin") as copy:
            for note in read_notes(cluster.folder):
                copy.write_row(note)
        for dsn in (*cluster.brokers, *cluster.stores.values()):
            _pour(dsn, "select id, protocol, topic, message_key from public.business", conn, "business")
        for sink, dsn in (*enumerate(cluster.brokers, 101), *((int(n), dsn) for n, dsn in cluster.sinks.items())):
            columns = f"nth, consumer_group, {sink}, broker, topic, queue_id, queue_offset, message_key, id"
            _pour(dsn, f"select {columns} from public.effect", conn, "effect")
        conn.execute(_DERIVED.encode())
        found = {name: [str(row[0]) for row in conn.execute(query.encode())] for name, query in _FAULTS.items()}
        return Findings(
            faults={name: len(ids) for name, ids in found.items() if ids},
            examples={name: ids[:5] for name, ids in found.items() if ids},
            messages=_number(conn, "select count(*) from expected"),
            by_protocol=_counts(conn, "select protocol, count(*) from expected group by 1 order by 1"),
            by_broker=_counts(
                conn, f"select 'broker-' || broker, count(*) from effect where who = '{FRESH}' group by 1 order by 1"
            ),
            counts=_counts(
                conn,
                "select 'tried', count(*) from tried union all select 'acknowledged', count(*) from done union all "
                "select 'rolled back', count(*) from undone union all "
                "select 'effects of ' || who, count(*) from effect group by 1 order by 1",
            ),
            repeated=_number(conn, f"select count(*) from applied where who = '{C3}' and times > 1"),
        )


def _pour(source: str, query: str, target: psycopg.Connection, table: str) -> None:
    """Copy rows of one database into a table of another one."""
    with (
        psycopg.connect(source) as conn,
        conn.cursor().copy(f"copy ({query}) to stdout".encode()) as rows,
        target.cursor().copy(f"copy {table} from stdin".encode()) as copy,
    ):
        for data in rows:
            copy.write(data)


def _number(conn: psycopg.Connection, query: str) -> int:
    return int(next(_rows(conn, query))[0])


def _counts(conn: psycopg.Connection, query: str) -> dict[str, int]:
    return {str(name): int(number) for name, number in _rows(conn, query)}


def _rows(conn: psycopg.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    yield from conn.execute(query.encode())
