"""`mqpg consume`: real consumer processes that are killed, doubled and stopped."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqpg.application import find_consumers
from mqpg.errors import ConfigurationError
from mqpg.workers.consume import parse_queues
from tests.support.processes import Process, Processes, workers
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

HANDLERS = """
import mqpg

@mqpg.consumer("t", group="g")
def apply(message, conn):
    conn.execute("insert into effect values (%s)", [message.message_id])

@mqpg.consumer("t", group="g", batch=True)
async def apply_async(messages, conn):
    for message in messages:
        await conn.execute("insert into effect values (%s)", [message.message_id])

def plain(message, conn):
    pass

nameless = mqpg.consumer("bad topic", group="g")(plain)
odd = mqpg.consumer("t", group="odd", filter="$.x > $foo")(plain)
hasty = mqpg.consumer("t", group="g", lease="0 s")(plain)
owner = mqpg.consumer("t", group="own", mode="pinned")(plain)
pinned = mqpg.consumer("t", group="pinned")(plain)
"""
# Effects anywhere (C3), also of a handler that takes its time.
ELSEWHERE = """
import signal
import time
import mqpg

signal.signal(signal.SIGTERM, print)  # as some libraries do when they are loaded

@mqpg.consumer("t", group="mail", effect="external", mode="shared", max_messages=5, lease=2)
def mail(message):
    with open("mailed", "a") as out:
        out.write(f"{message.message_id} ")

@mqpg.consumer("t", group="slow", effect="external", lease=4)
def slow(message):
    with open("begun", "a") as out:
        out.write("x")
    time.sleep(5)
    with open("done", "a") as out:
        out.write(f"{message.message_id} ")
"""


@pytest.fixture
def handlers(tmp_path: Path, db: Connection) -> str:
    """Write a module with handlers that record each message in the table `effect`."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    db.execute("create table effect (message_id bigint not null)")
    db.execute("select mqpg.create_topic('t', 4)")
    db.execute("select mqpg.subscribe('g', 't')")
    db.execute("select mqpg.subscribe('pinned', 't', 'pinned')")
    return "handlers"


def send(db: Connection, count: int) -> list[int]:
    query = "select mqpg.send_batch('t', array_fill('{}'::text, array[%s]))"
    ids = [row[0] for row in db.execute(query, [count])]
    db.execute("select mqpg.append()")
    return ids


def effects(db: Connection) -> list[int]:
    return [row[0] for row in db.execute("select message_id from effect order by message_id")]


def start(processes: Processes, target: str, *arguments: str) -> Process:
    return processes.start("consume", target, "--heartbeat", "0.2", *arguments)


@pytest.mark.parametrize("handler", ["apply", "apply_async"])
def test_messages_take_effect_once_and_the_row_tells(
    processes: Processes, db: Connection, handlers: str, handler: str
) -> None:
    sent = send(db, 20)
    process = start(processes, f"{handlers}:{handler}", "--max-messages", "3")
    eventually(lambda: len(effects(db)) >= 20, why=processes.logs)
    detail = eventually(
        lambda: next((d for d in workers(db, "consumer", "active").values() if d["handled"] >= 20), None),
        why=processes.logs,
    )
    assert (detail["topic"], detail["consumer_group"], detail["raised"]) == ("t", "g", 0)
    assert process.stop(signal.SIGTERM) == 0
    assert process.pid in workers(db, "consumer", "stopped")
    assert effects(db) == sent


@pytest.mark.chaos
def test_i12_a_killed_consumer_among_two_loses_and_repeats_nothing(
    processes: Processes, db: Connection, handlers: str
) -> None:
    pair = [start(processes, f"{handlers}:apply", "--max-messages", "2", "--consumer", name) for name in ("a", "b")]
    eventually(lambda: len(workers(db, "consumer", "active")) == 2, why=processes.logs)
    sent = send(db, 200)
    eventually(lambda: effects(db), why=processes.logs)
    pair[0].kill()
    sent += send(db, 50)
    eventually(lambda: len(effects(db)) >= len(sent), why=processes.logs)
    assert effects(db) == sorted(sent)
    assert pair[1].stop() == 0


def test_a_consumer_with_a_new_name_says_who_holds_its_queues(
    processes: Processes, db: Connection, handlers: str
) -> None:
    """A container that comes back has another host name, and with it another name of its consumer."""
    db.execute("select mqpg.unsubscribe('g', 't')")
    db.execute("select mqpg.subscribe('g', 't', mode => 'pinned')")
    sent = send(db, 4)
    first = processes.start("consume", f"{handlers}:apply", MQPG_CONSUMER="bill-1")
    eventually(lambda: effects(db) == sent, why=processes.logs)
    assert first.stop() == 0
    sent += send(db, 4)
    second = start(processes, f"{handlers}:apply", "--consumer", "bill-2")
    detail = eventually(
        lambda: next((d for d in workers(db, "consumer", "active").values() if d.get("blocked_by")), None),
        why=processes.logs,
    )
    (held,) = detail["blocked_by"]
    assert (held["consumer"], held["lag"]) == ("bill-1", 4)
    assert "mqpg subscription unpin g t --consumer bill-1" in second.log()
    assert effects(db) == sent[:4]
    db.execute(held["unpin"])
    eventually(lambda: effects(db) == sent, why=processes.logs)
    assert second.stop() == 0


def test_only_some_queues(processes: Processes, db: Connection, handlers: str) -> None:
    send(db, 1)
    for key in range(40):
        db.execute("select mqpg.send('t', '{}'::text, key => %s)", [str(key)])
    db.execute("select mqpg.append()")
    row = db.execute("select sum(n) from mqpg.consume_queue where queue_id in (1, 3)").fetchone()
    start(processes, f"{handlers}:apply", "--queues", "1,3")
    eventually(lambda: row and len(effects(db)) == row[0], why=processes.logs)
    query = "select queue_id, lag from mqpg.subscription_lag where consumer_group = 'g' and queue_id >= 0"
    lag = db.execute(query).fetchall()
    assert {queue for queue, left in lag if left} == {0, 2}


@pytest.fixture
def elsewhere(tmp_path: Path, db: Connection) -> str:
    """Write a module with handlers whose effects are outside the broker's database."""
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    db.execute("select mqpg.create_topic('t', 4)")
    return "elsewhere"


def numbers(path: Path) -> list[int]:
    return sorted(map(int, path.read_text().split())) if path.exists() else []


@pytest.mark.chaos
def test_c3_what_a_killed_consumer_held_comes_again(
    processes: Processes, db: Connection, elsewhere: str, tmp_path: Path
) -> None:
    """At least once: messages that were acknowledged are not repeated, and the message in hand may
    be.
    """
    db.execute("select mqpg.subscribe('mail', 't', 'shared')")
    pair = [processes.start("consume", f"{elsewhere}:mail", "--concurrency", "2") for _ in range(2)]
    eventually(lambda: len(workers(db, "consumer", "active")) == 2, why=processes.logs)
    sent = send(db, 300)
    eventually(lambda: numbers(tmp_path / "mailed"), why=processes.logs)
    pair[0].kill()
    eventually(lambda: set(numbers(tmp_path / "mailed")) == set(sent), why=processes.logs)
    assert pair[1].stop() == 0
    mailed = numbers(tmp_path / "mailed")
    assert len(mailed) - len(set(mailed)) <= 2


def test_sigterm_finishes_the_message_in_hand_and_gives_the_others_back(
    processes: Processes, db: Connection, elsewhere: str, tmp_path: Path
) -> None:
    """The handler takes longer than the lease, which the heartbeat extends meanwhile."""
    db.execute("select mqpg.subscribe('slow', 't')")
    query = "select mqpg.send_batch('t', array_fill('{}'::text, array[3]), keys => array_fill('k'::text, array[3]))"
    sent = [row[0] for row in db.execute(query)]
    db.execute("select mqpg.append()")
    process = processes.start("consume", f"{elsewhere}:slow")
    eventually((tmp_path / "begun").exists, why=processes.logs)
    assert process.stop(signal.SIGTERM) == 0
    assert numbers(tmp_path / "done") == sent[:1]
    rest = db.execute("select message_id, attempt from mqpg.receive('slow', 't')").fetchall()
    assert rest == [(sent[1], 1), (sent[2], 1)]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("plain", "module 'plain' has no consumer"),
        (":apply", "must be module:name"),
        ("missing_module:apply", "cannot import 'missing_module'"),
        ("handlers:nothing", "has no 'nothing'"),
        ("handlers:plain", "decorate it with @mqpg.consumer"),
        ("broken:apply", "division by zero (/"),
        ("program:apply", "SystemExit: 0 (/"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "program.py").write_text("import sys\n\nsys.exit(0)\n")
    (tmp_path / "plain.py").write_text("def apply(message, conn): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError) as caught:
        find_consumers(target)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_queues_of_the_command_line() -> None:
    assert parse_queues("0-3,6, 2") == [0, 1, 2, 3, 6]
    for wrong in ("", "3-1", "a", "-1", "1-"):
        with pytest.raises(ConfigurationError, match="--queues must look like"):
            parse_queues(wrong)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["consume", "nowhere:apply"], 2, "cannot import 'nowhere'"),
        (["consume", "handlers:apply", "--queues", "0-99"], 2, "queue_id must be between"),
        (["consume", "handlers:nameless"], 2, "bad topic"),
        (["consume", "handlers:odd"], 2, "filter may use the variables"),
        (["consume", "handlers:hasty"], 2, "lease must be"),
        (["consume", "handlers:owner"], 2, "handlers:owner needs a name"),
        (["consume", "handlers"], 2, "needs a name"),
        (["consume", "handlers:pinned"], 2, "handlers:pinned needs a name"),
        (["consume", "handlers:apply", "--dsn", "postgresql://127.0.0.1:1/x", "--wait", "0"], 3, "cannot connect"),
        (["worker", "appender", "--dsn", "postgresql://127.0.0.1:1/x", "--wait", "0"], 3, "cannot connect"),
        (["worker", "--ledger", "shop"], 2, "--ledger must be name=url"),
        (["worker", "sweeper"], 2, "role must be one of"),
        (["worker", "--interval", "1"], 2, "--interval goes with one role"),
    ],
)
@pytest.mark.usefixtures("handlers")
def test_a_wrong_start_is_one_line_and_a_status(
    processes: Processes, arguments: list[str], status: int, said: str
) -> None:
    process = processes.start(*arguments)
    assert process.wait() == status
    (line,) = [line for line in process.log().splitlines() if line.startswith("mqpg: ")]
    assert said in line
    assert "Traceback" not in process.log()


@pytest.mark.parametrize("arguments", [["worker"], ["worker", "keeper"]])
def test_a_database_without_the_schema_is_status_3(
    processes: Processes, new_database: Callable[..., str], arguments: list[str]
) -> None:
    process = processes.start(*arguments, dsn=new_database(empty=True))
    assert process.wait() == 3
    assert "run mqpg migrate" in process.log()
