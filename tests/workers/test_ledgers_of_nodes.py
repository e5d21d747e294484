"""Producer nodes of one group, each with a ledger of its own: which one is asked, and what it may answer.

The nodes are processes that die by SIGKILL, and the compensators are real ones.
"""

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text

import mqpg
from mqpg.connection.dsn import to_sqlalchemy
from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.support.killing import die_at, killed
from tests.support.processes import Process, Processes
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]
GROUP = "shop"
STEPS = ("prepare_half", "begin_local", "commit_local", "decide", "mark_done")
DEATHS = [(step, when) for step in STEPS for when in ("before", "after")]


class Node:
    """A node's database, with table sale, and what its producer does."""

    def __init__(self, dsn: str, url: str) -> None:
        self.dsn, self.url, self.sold = dsn, url, 0
        self.engine: Engine = create_engine(url)
        self.execute("create table sale (id int)")
        with mqpg.connect(dsn) as mq:
            mqpg.TransactionalProducer(mq, group=GROUP, ledger=self.engine).create_ledger()

    def execute(self, statement: str) -> list[Any]:
        with self.engine.begin() as conn:
            found = conn.execute(text(statement))
            return list(found.all()) if found.returns_rows else []

    def sell(self, number: int, step: str = "decide", when: str = "before") -> None:
        """Sell, and die at the step: by default after the local commit, before the broker knows of it."""
        killed(__name__, self.dsn, self.url, number, step, when)

    def sales(self) -> list[int]:
        return [row[0] for row in self.execute("select id from sale")]


def main(dsn: str, url: str, number: int, step: str, when: str) -> None:
    """Sell once as a node, and die by SIGKILL before or after a step of the transaction."""
    die_at(f"mqpg._sync.producer.transactional:{step}", when)
    with mqpg.connect(dsn) as mq:
        producer = mqpg.TransactionalProducer(mq, group=GROUP, ledger=create_engine(url))
        with producer.transaction(GROUP, {"id": number}) as tx:
            tx.execute(text("insert into sale values (:id)"), {"id": number})


@pytest.fixture
def broker(db: Connection) -> Connection:
    db.execute("select mqpg.create_topic(%s, queues => 1), mqpg.subscribe(%s, %s)", [GROUP] * 3)
    db.execute(
        "select mqpg.create_producer_group(%s, '200 ms', checker => 'url', checker_target => 'shop')",
        [GROUP],
    )
    return db


@pytest.fixture
def new_node(
    dsn: str, broker: Connection, tmp_path: Path, new_database: Callable[..., str]
) -> Iterator[Callable[[str], Node]]:
    """Factory of nodes, by the kind of their databases."""
    nodes: list[Node] = []

    def create(kind: str = "sqlite") -> Node:
        url = f"sqlite:///{tmp_path / str(len(nodes))}.db"
        if kind == "postgresql":
            url = to_sqlalchemy(new_database(empty=True)).render_as_string(hide_password=False)
        nodes.append(Node(dsn, url))
        return nodes[-1]

    yield create
    for node in nodes:
        node.engine.dispose()


def compensator(processes: Processes, *nodes: Node) -> Process:
    options = [word for node in nodes for word in ("--ledger", f"shop={node.url}")]
    return processes.worker("compensator", "--interval", "0.1", *options)


def states(broker: Connection) -> list[tuple[int, str]]:
    """Each half message's number and state, in order."""
    return broker.execute(
        "select (l.payloads[1] ->> 'id')::int, coalesce(o.op::text, '') from mqpg.commit_log l"
        " left join mqpg.op_log o on o.message_id = l.batch_id * 1024 and o.stage = 0 order by 1"
    ).fetchall()


def reasons(broker: Connection) -> str:
    return "; ".join(row[0] or "" for row in broker.execute("select reason from mqpg.half_pending"))


def parked(broker: Connection) -> str:
    return "; ".join(row[0] or "" for row in broker.execute("select reason from mqpg.half_parked"))


def delivered(broker: Connection) -> list[int]:
    broker.execute("select mqpg.append()")
    found = broker.execute("select (payload ->> 'id')::int from mqpg.receive(%s, %s, 100)", [GROUP] * 2)
    return sorted(row[0] for row in found)


# which ledger is asked


@pytest.mark.chaos
def test_a_producer_that_prepares_by_itself_is_found_by_the_identity_that_it_passes(
    new_node: Callable[[str], Node], broker: Connection, dsn: str, processes: Processes
) -> None:
    """Nothing but the half messages tells the broker of these ledgers."""
    nodes = [new_node("sqlite"), new_node("sqlite")]
    with mqpg.connect(dsn) as mq:
        for number, node in enumerate(nodes):
            with mqpg.Ledger(node.url) as ledger, node.engine.begin() as conn:
                handle = mq.prepare(GROUP, {"id": number}, GROUP, ledger=ledger.identity())
                ledger.begin(conn, handle)
            mq.prepare(GROUP, {"id": 2 + number}, GROUP, ledger=ledger.identity())
    compensator(processes, *nodes)
    eventually(
        lambda: states(broker) == [(0, "c"), (1, "c"), (2, "b"), (3, "b")],
        30,
        why=lambda: f"{states(broker)} {reasons(broker)} {parked(broker)}",
    )


@pytest.mark.chaos
@pytest.mark.parametrize("kinds", [("sqlite", "sqlite"), ("sqlite", "postgresql") * 2], ids=["two", "four"])
def test_i1_a_sale_is_delivered_wherever_its_node_died(
    processes: Processes, broker: Connection, new_node: Callable[[str], Node], kinds: tuple[str, ...]
) -> None:
    nodes = [new_node(kind) for kind in kinds]
    for number, (step, when) in enumerate(DEATHS):
        nodes[number % len(nodes)].sell(number, step, when)
    half = len(nodes) // 2
    compensator(processes, *nodes[:half])  # one compensator for a part of the group, another one for the rest
    compensator(processes, *nodes[half:])
    eventually(lambda: all(state for _, state in states(broker)), timeout=120, why=processes.logs)
    sales = sorted(number for node in nodes for number in node.sales())
    assert delivered(broker) == sales
    assert [number for number, state in states(broker) if state == "c"] == sales


def test_a_ledger_that_is_not_served_gives_no_verdict_and_is_named(
    processes: Processes, broker: Connection, new_node: Callable[[str], Node]
) -> None:
    one, two = new_node("sqlite"), new_node("postgresql")
    one.sell(1)
    two.sell(2)
    one.sell(3, "begin_local")
    process = compensator(processes, one)
    eventually(lambda: states(broker) == [(1, "c"), (2, ""), (3, "b")], timeout=60, why=processes.logs)
    unserved = "no compensator serves the ledger "
    eventually(lambda: unserved in reasons(broker), why=processes.logs)
    assert 'start "mqpg worker" with --ledger shop=URL of that database' in reasons(broker)
    assert str(two.engine.url.database) in reasons(broker)
    eventually(lambda: unserved in process.log(), why=processes.logs)
    assert broker.execute("select checks from mqpg.half_pending").fetchall() == [(0,)]
    assert two.execute("select count(*) from mqpg_ledger where entry = 'fence' and handle <> 'identity'") == [(0,)]
    compensator(processes, two)
    eventually(lambda: states(broker)[1] == (2, "c"), timeout=60, why=processes.logs)
    assert delivered(broker) == [1, 2]


def test_a_compensator_may_reach_a_ledger_by_another_name(
    processes: Processes, broker: Connection, new_node: Callable[[str], Node]
) -> None:
    node = new_node("postgresql")
    node.sell(1)
    node.sell(2, "begin_local")
    node.url = node.url.replace("127.0.0.1", socket.gethostbyname("localhost")).replace("@localhost", "@127.0.0.1")
    other = create_engine(node.url).url.update_query_dict({"application_name": "x"}).set(host="localhost")
    node.url = other.render_as_string(hide_password=False)
    compensator(processes, node)
    eventually(lambda: states(broker) == [(1, "c"), (2, "b")], timeout=60, why=processes.logs)


# ledgers that lost rows


def drop_and_make_again(node: Node, _: Path) -> None:
    node.execute("drop table mqpg_ledger")
    with mqpg.connect(node.dsn) as mq:
        mqpg.TransactionalProducer(mq, group=GROUP, ledger=node.engine).create_ledger()


def empty(node: Node, _: Path) -> None:
    node.execute("delete from mqpg_ledger" if node.engine.dialect.name == "sqlite" else "truncate mqpg_ledger")


def rename(node: Node, copy: Path) -> None:
    node.execute("alter table mqpg_ledger rename to mqpg_ledger_before")
    if node.engine.dialect.name == "sqlite":
        node.execute("drop index mqpg_ledger_undone")
    else:
        node.execute("alter index mqpg_ledger_undone rename to mqpg_ledger_undone_before")
        node.execute("alter table mqpg_ledger_before rename constraint mqpg_ledger_pkey to mqpg_ledger_before_pkey")
    with mqpg.connect(node.dsn) as mq:
        mqpg.TransactionalProducer(mq, group=GROUP, ledger=node.engine).create_ledger()


def restore(node: Node, copy: Path) -> None:
    """A copy from before the process began that sold last; in PostgreSQL the rows of the table alone."""
    if node.engine.dialect.name == "sqlite":
        node.engine.dispose()
        shutil.copy(copy, str(node.engine.url.database))
    else:
        node.execute("truncate mqpg_ledger")
        node.execute("insert into mqpg_ledger select * from ledger_copy")


@pytest.mark.chaos
@pytest.mark.parametrize("lose", [drop_and_make_again, empty, rename, restore])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_that_lost_rows_parks_and_never_rolls_back(
    processes: Processes,
    broker: Connection,
    new_node: Callable[[str], Node],
    tmp_path: Path,
    kind: str,
    lose: Callable[[Node, Path], None],
) -> None:
    node = new_node(kind)
    node.sell(1, "mark_done", "after")
    if kind == "sqlite":
        shutil.copy(str(node.engine.url.database), tmp_path / "copy.db")
    else:
        node.execute("create table ledger_copy as table mqpg_ledger")
    node.sell(2)
    lose(node, tmp_path / "copy.db")
    compensator(processes, node)
    eventually(lambda: parked(broker), timeout=60, why=processes.logs)
    assert "ledger" in parked(broker)
    assert "since the half message was prepared" in parked(broker)
    assert states(broker) == [(1, "c"), (2, "")]
    eventually(lambda: "half message stays undecided" in processes.logs())
    # The ledger serves what is sold from now on.
    node.sell(3)
    node.sell(4, "begin_local")
    eventually(lambda: states(broker)[2:] == [(3, "c"), (4, "b")], timeout=60, why=processes.logs)
    assert states(broker)[1] == (2, "")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_copy_of_a_ledger_gives_no_verdict_on_what_it_has_no_row_of(
    processes: Processes,
    broker: Connection,
    new_node: Callable[[str], Node],
    databases: Databases,
    server: Server,
    tmp_path: Path,
    kind: str,
) -> None:
    """The process that sells has given the table its identity before the copy was made."""
    node = new_node(kind)
    ledger = mqpg.Ledger(node.engine)
    identity = ledger.identity()
    node.engine.dispose()
    if kind == "sqlite":
        shutil.copy(str(node.engine.url.database), tmp_path / "copy.db")
        url = f"sqlite:///{tmp_path / 'copy.db'}"
    else:
        copied = databases.copy(str(node.engine.url.database))
        url = to_sqlalchemy(server.dsn(copied)).render_as_string(hide_password=False)
    with mqpg.connect(node.dsn) as mq, node.engine.begin() as conn:
        ledger.begin(conn, mq.prepare(GROUP, {"id": 1}, GROUP, ledger=identity))
    process = processes.worker("compensator", "--interval", "0.1", "--ledger", f"shop={url}")
    eventually(lambda: f"the ledger {identity}" in reasons(broker), timeout=60, why=processes.logs)
    assert states(broker) == [(1, "")]
    process.stop()
    compensator(processes, node)
    eventually(lambda: states(broker) == [(1, "c")], timeout=60, why=processes.logs)
    if kind == "postgresql":
        databases.drop(copied)


def test_halves_and_ledgers_without_an_identity_work_as_before(
    processes: Processes, broker: Connection, new_node: Callable[[str], Node]
) -> None:
    node = new_node("sqlite")
    node.execute("delete from mqpg_ledger")  # as of an earlier release
    row = broker.execute(
        "select array_agg(mqpg.prepare(%s, '{\"id\": 1}'::text, %s)) from generate_series(1, 2)", [GROUP] * 2
    )
    committed, absent = row.fetchone()[0]  # type: ignore[index]
    with node.engine.begin() as conn:
        mqpg.Ledger(node.engine).begin(conn, committed)
    compensator(processes, node)
    eventually(lambda: sorted(state for _, state in states(broker)) == ["b", "c"], timeout=60, why=processes.logs)
    assert absent != committed


def test_a_table_that_is_younger_than_a_half_without_identity_parks_it(
    processes: Processes, broker: Connection, new_node: Callable[[str], Node]
) -> None:
    node = new_node("sqlite")
    broker.execute("select mqpg.prepare(%s, '{\"id\": 1}'::text, %s)", [GROUP] * 2)
    drop_and_make_again(node, Path())
    compensator(processes, node)
    eventually(lambda: "made after the half message" in parked(broker), timeout=60, why=processes.logs)
    assert states(broker) == [(1, "")]


def test_halves_without_identity_wait_if_one_compensator_serves_several_ledgers(
    processes: Processes, broker: Connection, new_node: Callable[[str], Node]
) -> None:
    broker.execute("select mqpg.prepare(%s, '{\"id\": 1}'::text, %s)", [GROUP] * 2)
    compensator(processes, new_node("sqlite"), new_node("sqlite"))
    eventually(lambda: "it carries no ledger" in reasons(broker), timeout=60, why=processes.logs)
    assert states(broker) == [(1, "")]
