"""A process that kills itself at a named step of a role: a producer, a recovery, a consumer or a replier."""

from importlib import import_module
from typing import Any

from sqlalchemy import Connection, text

import mqpg
from tests.support.killing import die_at, killed
from tests.support.proven import prove

INSERT = "insert into business (id) values ({})"


def crash_at(role: str, dsn: str, local_url: str, when: str, step: str) -> None:
    """Play a role in a process until it is dead by its own SIGKILL."""
    killed("tests.support.crash", role, dsn, local_url, when, step)


def _producer(mq: mqpg.Client, local_url: str) -> None:
    with mqpg.TransactionalProducer(mq, group="shop", ledger=local_url).transaction("orders", {"id": 1}) as tx:
        tx.execute(text(INSERT.format(1)))


def _background_producer(mq: mqpg.Client, local_url: str) -> None:
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=local_url, decide_in_background=True)
    with producer.transaction("orders", {"id": 1}) as tx:
        tx.execute(text(INSERT.format(1)))
    producer.close()


def _recoverer(mq: mqpg.Client, local_url: str) -> None:
    with mqpg.TransactionalProducer(mq, group="shop", ledger=local_url) as producer:
        producer.recover()


def _same_database(mq: mqpg.Client, local_url: str) -> None:
    @mqpg.consumer("orders", group="readers", journal=True)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT.format(message.payload["id"]))

    prove(handle)
    handle.step(mq)


def _own_database(mq: mqpg.Client, local_url: str) -> None:
    @mqpg.consumer("orders", group="readers", database=local_url, consumer="one", journal=True)
    def handle(message: mqpg.Message, conn: Connection) -> None:
        if message.payload["id"] == 13 and message.attempt == 1:
            raise ValueError("not at the first time")
        conn.execute(text(INSERT.format(message.payload["id"])))

    handle.step(mq)


def _replier(mq: mqpg.Client, local_url: str) -> None:
    @mqpg.consumer("sums", group="readers", lease=1)
    def add(message: mqpg.Message, conn: Any) -> Any:
        return {"sum": sum(message.payload)}

    while not add.step(mq):
        pass


_ROLES = {
    "producer": _producer,
    "background_producer": _background_producer,
    "recoverer": _recoverer,
    "same_database": _same_database,
    "own_database": _own_database,
    "replier": _replier,
}
_OWNERS = {
    "prepare_half": "mqpg._sync.producer.transactional",
    "begin_local": "mqpg._sync.producer.transactional",
    "commit_local": "mqpg._sync.producer.transactional",
    "decide": "mqpg._sync.producer.transactional",
    "mark_done": "mqpg._sync.producer.transactional",
}


def main(role: str, dsn: str, local_url: str, when: str, step: str) -> None:
    module, _, name = step.rpartition(".")
    owner: Any = import_module(_OWNERS.get(step, "mqpg"))
    for part in filter(None, module.split(".")):
        owner = getattr(owner, part) if hasattr(owner, part) else import_module(f"{owner.__name__}.{part}")
    with mqpg.connect(dsn) as mq:
        die_at(owner, name, when)
        _ROLES[role](mq, local_url)
