"""What the processes do: set up, consume, produce, or finish what a producer left.

Each of them is forked by the fork_server, imports the user's code by itself, and ends with `os._exit`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from contextlib import closing
from datetime import timedelta
from importlib import import_module
from types import TracebackType
from typing import Any

import mqpg
from mqpg import protocols
from mqpg.application import load
from mqpg.crashtest.control import Line
from mqpg.crashtest.target import describe, parameters
from mqpg.crashtest.watch import Watch, watch_other_databases
from mqpg.handlers.failures import PERMANENT_ERRORS
from mqpg.values.errors import Error

__all__ = ["import_the_rest", "main"]

_GROUP = "crashtest"
_USED = (
    "mqpg._async.consumer.own_database",
    "mqpg._sync.consumer.own_database",
    "mqpg._sync.producer.recovery",
    "mqpg._sync.producer.transactional",
    "mqpg.decorator",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
_PAUSE = 0.05
_MOST_FAILURES = 5


def import_the_rest() -> None:
    """Import what jobs use, and what is otherwise imported at its first use, in each process again."""
    for name in _USED:
        import_module(name)


def main(job: dict[str, Any]) -> None:
    """Do a job and end the process. `what` names the function below; the rest are its arguments."""
    line = Line(job["desk"])
    line.ask(pid=os.getpid())
    try:
        _JOBS[job["what"]](job, line)
        _join_threads()
        status = 0
    except BaseException as error:
        traceback.print_exc()
        line.ask(failed=f"{type(error).__name__}: {error}", usage=isinstance(error, Error))
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _set_up(job: dict[str, Any], line: Line) -> None:
    """Describe the target, call the user's set-up, make the subscription, send the messages."""
    found = load(job["target"], job["modules"])
    about = describe(found, job["target"])
    line.ask(about=about)  # the command makes the tables of its SQL files now
    with mqpg.connect() as mq:
        for name in job["setups"]:
            _call(load(name, job["modules"]), mq)
        if about["kind"] == "producer":
            _prepare_producer(mq, about)
            return
        options = found.options
        if mq.queries.topic_kind(options.topic) is None:
            mq.create_topic(options.topic, queues=1)
        mq.subscribe(
            options.group,
            options.topic,
            mode=options.wanted_mode,
            start=options.start,
            **options.of_subscription | {"retry_delay": job["retry_delay"]},
        )
        for text in job["messages"]:
            mq.send(options.topic, mqpg.Json(text))
        mq.append()


def _call(function: Any, mq: mqpg.Client) -> None:
    """Call a set-up with what it wants: nothing, or the client."""
    _finished(function, *([mq] if parameters(function) else []))


def _finished(function: Any, *arguments: Any) -> None:
    """Call a function. What an asynchronous one returns has only to be run."""
    result = function(*arguments)
    if asyncio.iscoroutine(result):
        asyncio.run(result)


def _prepare_producer(mq: mqpg.Client, about: dict[str, Any]) -> None:
    if about["wants"] == "producer":
        mq.create_producer_group(_GROUP, checker="url", checker_target=_GROUP)
        with mqpg.Ledger(os.environ["MQPG_LEDGER_CRASHTEST"]) as ledger:
            ledger.create()


def _consume(job: dict[str, Any], line: Line) -> None:
    """Consume until the command says that nothing is left."""
    watch = Watch(line, job["port"])
    watch_other_databases(line)
    made = load(job["target"], job["modules"])
    options = made.options
    changes: dict[str, Any] = {"lease": job["lease"], "retry_delay": job["retry_delay"], "concurrency": 1}
    changes["journal"] = options.where != "external"
    if job["database"] == "postgresql":
        changes["database"] = os.environ["MQPG_CRASHTEST_EFFECT"]
    asynchronous = isinstance(made, mqpg.AsyncConsumer)
    # The first is the outermost, so what the user's middleware does is watched too.
    changes["middleware"] = (watch.middleware(asynchronous=asynchronous), *options.middleware)
    consumer = made.with_options(**changes)
    if isinstance(consumer, mqpg.AsyncConsumer):
        asyncio.run(_steps_async(consumer, line))
    else:
        with mqpg.connect() as mq:
            patience = _Patience()
            while True:
                with patience:
                    while consumer.step(mq):
                        pass
                    if line.ask(quiet=True)["end"]:
                        break
            _join_threads()
            consumer.close()


async def _steps_async(consumer: mqpg.AsyncConsumer, line: Line) -> None:
    async with await mqpg.connect_async() as mq:
        patience = _Patience()
        while True:
            with patience:
                while await consumer.step(mq):
                    pass
                if line.ask(quiet=True)["end"]:
                    break
        await consumer.close()


class _Patience:
    """Lets an iteration that failed be tried again a few times, as `mqpg consume` does."""

    def __init__(self) -> None:
        self._failures = 0

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, PERMANENT_ERRORS):
            return False
        self._failures += 1
        time.sleep(_PAUSE)
        return self._failures <= _MOST_FAILURES


def _produce(job: dict[str, Any], line: Line) -> None:
    """Call the producer once."""
    watch = Watch(line, job["port"])
    watch_other_databases(line)
    function = load(job["target"], job["modules"])
    with mqpg.connect() as mq:
        if job["wants"] != "producer":
            watch.produce(_finished, function, *([mq] if job["wants"] else []))
            return
        # Not as a block, whose recovery would add statements to those that are counted.
        with closing(
            mqpg.TransactionalProducer(mq, group=_GROUP, ledger=os.environ["MQPG_LEDGER_CRASHTEST"])
        ) as producer:
            watch.produce(_finished, function, producer)


def _finish(job: dict[str, Any], line: Line) -> None:
    """Do what recovery and check-backs do, for every ledger and outbox that is found."""
    with mqpg.connect() as mq:
        for url in job["ledgers"]:
            # Not as a block, which would log the group: recovery needs none.
            with closing(mqpg.TransactionalProducer(mq, group=_GROUP, ledger=url)) as producer:
                while producer.recover(older_than=timedelta(0)):
                    pass
                _check_back(mq, producer.ledger, line)
        for url, group in job["outboxes"]:
            with closing(protocols.OutboxProducer(mq, group=group, database=url)) as outbox:
                while outbox.recover(older_than=timedelta(0)):
                    pass
        mq.compensate()
        mq.append()


def _check_back(mq: mqpg.Client, ledger: mqpg.Ledger, line: Line) -> None:
    """Ask the ledger about half messages whose check-back a worker would do."""
    for handle in line.ask(undecided=True)["handles"]:
        verdict = ledger.verdict(handle)
        if verdict is mqpg.Verdict.COMMIT:
            mq.commit(handle, ledger.final_payload(handle))
        elif verdict is mqpg.Verdict.ROLLBACK:
            mq.rollback(handle)


def _join_threads() -> None:
    """Wait for threads that the user's code started, as the interpreter does at its end."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.name.startswith(("mqpg", "pool-")):
            thread.join(5.0)


_JOBS = {"set_up": _set_up, "consume": _consume, "produce": _produce, "finish": _finish}
