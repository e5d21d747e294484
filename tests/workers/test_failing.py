"""Alive is not at work: a process whose iterations fail one after another is said to fail, everywhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import mqpg
from mqpg.metrics.families import families
from mqpg.metrics.reading import read_metrics
from mqpg.workers import consume as runner
from mqpg.workers import worker_of
from mqpg.workers.worker import Options
from tests.support.broker import Broker
from tests.support.in_process import Run
from tests.support.waiting import eventually
from tests.support.working import NO_DDL

Connection = psycopg.Connection[Any]
Body = Callable[[threading.Event], object]

GONE = "alter function mqpg.{}({}) rename to elsewhere"
BACK = "alter function mqpg.elsewhere({1}) rename to {0}"
# Role, what breaks it, what mends it, and a word of the error.
BROKEN = {
    "no DDL": ("keeper", NO_DDL, "drop event trigger stop", "no DDL"),
    "keeper": ("keeper", GONE.format("_keep", "boolean"), BACK.format("_keep", "boolean"), "_keep"),
    "appender": ("appender", GONE.format("append", "integer"), BACK.format("append", "integer"), "append"),
    "compensator": (
        "compensator",
        GONE.format("_compensate", "integer, text, text"),
        BACK.format("_compensate", "integer, text, text"),
        "_compensate",
    ),
}


@contextmanager
def at_work(broker: Broker, *bodies: Body) -> Iterator[None]:
    stop = threading.Event()
    running = [broker.background(body, stop) for body in bodies]
    try:
        yield
    finally:
        stop.set()
        for one in running:
            one.result()


def failing(db: Connection, role: str) -> int:
    query = """
        select coalesce(min((w.detail -> 'failing' ->> 'times')::int), 0) as n from mqpg.worker_status as w
        where w.role = %s and w.alive
    """
    return int(db.execute(query, [role]).fetchone()[0])  # type: ignore[index]


def reported_seconds(dsn: str, role: str) -> list[float]:
    with psycopg.connect(dsn, row_factory=dict_row) as conn:
        found = families(read_metrics(lambda query: conn.execute(query.encode()).fetchall()))
        (one,) = [one for one in found if one.name == "mqpg_worker_failing_seconds"]
    return [sample.value for sample in one.samples if sample.labels["role"] == role]


def said(run: Run, role: str, *, health: bool) -> dict[str, str]:
    commands = {name: run(name) for name in ("status", "why", "doctor")}
    if health:
        commands["health"] = run("worker", role, "--health")
        assert commands["health"][0] == ("has failed" in commands["health"][2])
    return {
        name: next((one for one in (out + err).splitlines() if "has failed" in one), "")
        for name, (_, out, err) in commands.items()
    }


@pytest.mark.parametrize("case", BROKEN)
def test_a_worker_that_fails_in_each_iteration(case: str, db: Connection, dsn: str, run: Run) -> None:
    role, broken, mended, word = BROKEN[case]
    broker = Broker(dsn)
    db.execute(broken.encode())
    worker = worker_of(role)(Options(dsn, interval=0.05, heartbeat=0.05))
    with at_work(broker, lambda stop: _run_until(worker, stop)):
        eventually(lambda: failing(db, role) >= 3, timeout=60)
        for name, line in said(run, role, health=True).items():
            assert role in line, name
            assert "times in a row, for" in line, name
            assert word in line, name
        eventually(lambda: reported_seconds(dsn, role)[0] > 0)
        db.execute(mended.encode())
        eventually(lambda: failing(db, role) == 0, timeout=60)
        assert not any(said(run, role, health=True).values())
        assert reported_seconds(dsn, role) == [0]
    broker.close()


def _run_until(worker: Any, stop: threading.Event) -> None:
    worker.stop = stop
    worker.run()


def test_another_process_does_the_work(db: Connection, dsn: str, run: Run) -> None:
    beat = "select mqpg._heartbeat(%s, 'keeper', 'h', 1, %s, %s)"
    bad = '{"failing": {"seconds": 60, "times": 9, "error": "e"}}'
    db.execute(beat, ["a", "standby", bad])
    assert "has failed 9 times" in run("status")[1]
    db.execute(beat, ["b", "active", "{}"])
    assert "has failed" not in run("status")[1]


def test_what_a_process_reports_may_be_anything(db: Connection, dsn: str, run: Run) -> None:
    beat = "select mqpg._heartbeat('consumer-1', 'consumer', 'h', 1, 'active', %s)"
    times = ('"many"', "5", '5, "seconds": "x"', '5, "seconds": 1e400')
    for value in ('"x"', "3", "[1]", *(f'{{"times": {some}}}' for some in times)):
        db.execute(beat, [f'{{"failing": {value}}}'])
        assert run("status")[0] == 1, value
        assert reported_seconds(dsn, "consumer") == [0], value


def handle(message: mqpg.Message, conn: Any) -> None:
    """Do nothing."""


def away(message: mqpg.Message) -> None:
    """Do nothing."""


CONSUMERS = {
    "C1": mqpg.consumer("t", group="g")(handle),
    "C2": mqpg.consumer("t", group="g", database="postgresql://localhost:1/none", journal=True, consumer="c")(handle),
    "C3": mqpg.consumer("t", group="g", effect="external")(away),
}


@pytest.mark.parametrize("protocol", CONSUMERS)
def test_a_consumer_that_fails_in_each_iteration(protocol: str, db: Connection, dsn: str, run: Run) -> None:
    broker = Broker(dsn)
    mq = broker.session()
    mq.subscribed("t", mode="pinned" if protocol == "C2" else "exclusive")
    if protocol != "C2":
        db.execute("alter table mqpg.cursor add constraint never check (false) not valid")
    mq.sent("t")
    body = partial(runner.run, CONSUMERS[protocol], "app:handle", dsn, heartbeat=0.05, patience=5)
    with at_work(broker, body):
        eventually(lambda: failing(db, "consumer") >= 3, timeout=60)
        for name, line in said(run, "consumer", health=False).items():
            assert "the consumer on" in line, name
        eventually(lambda: reported_seconds(dsn, "consumer")[0] > 0)
    broker.close()


DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "filter": ({"filter": None}, {"filter": "$.qty>2"}, "filter is not set, not"),
    "no filter": ({"filter": "$.qty > 2"}, {}, "filter is "),
    "tags": ({"tags": ["a"]}, {"tags": ["a", "b"]}, "tags is {a}, not {a,b}"),
    "retry_delay": ({"retry_delay": 10}, {"retry_delay": "1 min"}, "retry_delay is 00:00:10, not 00:01:00"),
    "same": ({"filter": "$.qty > 2", "tags": ["b", "a"]}, {"filter": "$.qty>2", "tags": ["a", "b"]}, ""),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_decorator_that_differs_from_the_subscription(
    case: str, db: Connection, dsn: str, caplog: pytest.LogCaptureFixture, run: Run
) -> None:
    has, says, words = DIFFERENT[case]
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.subscribe("g", "t", **has)
    broker = Broker(dsn)
    consumer = mqpg.consumer("t", group="g", **says)(handle)
    with at_work(broker, partial(runner.run, consumer, "app:handle", dsn, heartbeat=0.05, patience=5)):
        eventually(lambda: db.execute("select 1 from mqpg.worker_status where role = 'consumer'").fetchone())
        eventually(lambda: ("has other options than the decorator" in caplog.text) == bool(words))
        assert words in caplog.text
        for command in ("status", "why", "doctor"):
            assert ("than the decorator" in run(command)[1]) == bool(words), command
        assert ("mqpg subscription sync app:handle" in run("status")[1]) == bool(words)
    broker.close()
