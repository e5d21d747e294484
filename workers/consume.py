"""Runs consumers of an application in one process, for `mqpg consume`."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import mqpg
from mqpg.application import AnyConsumer
from mqpg.connection.backoff import Backoff
from mqpg.connection.streak import FailureStreak
from mqpg.handlers.failures import reason_of
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.errors import ConfigurationError, ConnectionFailed, Error, HandlerStuck, SchemaTooNew
from mqpg.values.messages import AbandonedQueues

from .heartbeat import Heartbeat
from .session import Connection, patiently, stay_connected

__all__ = ["Lifespan", "parse_queues", "process", "run", "run_all"]

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}")
_TOPIC_PAUSE = 1.0  # seconds between two looks for a topic that is not there
_RECOVERED = 10.0  # after so many seconds a consumer that had stopped counts as one that works

# Runs a coroutine to its end.
RunsCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
# Makes a context manager, or an asynchronous one.
Lifespan = Callable[[], Any]


def parse_queues(text: str) -> list[int]:
    """Parse numbers and ranges of queues, for instance `0-3,6`."""
    queues: set[int] = set()
    for part in text.split(","):
        first, separator, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not separator)) or int(last or first) < int(first):
            raise ConfigurationError(f"--queues must look like 0-3,6, not {text!r}")
        queues.update(range(int(first), int(last or first) + 1))
    return sorted(queues)


def run_all(
    consumers: Mapping[str, AnyConsumer],
    dsn: str,
    stop: threading.Event,
    *,
    heartbeat: float,
    patience: float,
    lifespan: Lifespan | None = None,
) -> None:
    """Run several consumers, each in a thread, until `stop` is set. Arguments and errors are those of `run`.

    A consumer that cannot continue is logged, and tried again, while the others work. What a restart of
    the process alone can mend, or a handler has raised to end it, ends all of them.
    """
    errors: list[BaseException] = []

    def one(target: str, made: AnyConsumer) -> None:
        try:
            restarts = _Restarts(target)
            run(made, target, dsn, stop, heartbeat=heartbeat, patience=patience, run_async=run_async, restarts=restarts)
        except BaseException as error:
            if not errors and len(consumers) > 1:
                logger.error("%s ends this process: %s", target, reason_of(error))
            errors.append(error)
            stop.set()

    with process(lifespan) as run_async:
        threads = [threading.Thread(target=one, args=item, name=f"mqpg {item[0]}") for item in consumers.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@contextmanager
def process(lifespan: Lifespan | None) -> Iterator[RunsCoroutine]:
    """The event loop of all asynchronous consumers, and inside of it what handlers share.

    `lifespan` is entered before the first message and left after the last one.
    """
    with _shared_loop() as run_async:
        if lifespan is None:
            yield run_async
            return
        made = lifespan()
        if not hasattr(made, "__aenter__"):
            with made:
                yield run_async
            return
        run_async(made.__aenter__())
        try:
            yield run_async
        finally:
            run_async(made.__aexit__(*sys.exc_info()))


@contextmanager
def _shared_loop() -> Iterator[RunsCoroutine]:
    """An event loop for all asynchronous consumers, because their handlers may share what belongs to a loop."""
    loop = asyncio.new_event_loop()

    def serve() -> None:
        ended = False
        while not ended:
            with suppress(SystemExit, KeyboardInterrupt):  # the thread of the consumer gets it, too
                loop.run_forever()
                ended = True

    thread = threading.Thread(target=serve, name="mqpg-loop", daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Restarts:
    """How often one of several consumers could not continue, and what with."""

    def __init__(self, target: str) -> None:
        self._target, self._streak, self._pauses = target, FailureStreak(), Backoff(1.0, 60.0)
        self._began = 0.0

    @property
    def failing(self) -> dict[str, object] | None:
        """What it has failed with, as heartbeats report it. None: it works."""
        return self._streak.described()

    def begin(self) -> None:
        """Note that it runs."""
        self._began = time.monotonic()

    def look(self) -> None:
        """Note that it works, if it has run for a while."""
        if self._began and time.monotonic() - self._began > _RECOVERED:
            self._streak.worked()
            self._pauses.reset()

    def pause(self, error: Exception) -> float:
        """Note that it could not continue. Returns the seconds until it tries again."""
        self.look()
        self._began, seconds = 0.0, self._pauses.next()
        self._streak.failed(reason_of(error))
        logger.error("%s cannot continue: again in %.1f s after %s", self._target, seconds, reason_of(error))
        return seconds


def run(
    consumer: AnyConsumer,
    target: str,
    dsn: str,
    stop: threading.Event,
    *,
    heartbeat: float,
    patience: float,
    run_async: RunsCoroutine = asyncio.run,
    restarts: _Restarts | None = None,
) -> None:
    """Consume until `stop` is set. An iteration that has begun is finished.

    `target` is the consumer's `module:name`, for the log and worker_status. `patience` is how many
    seconds to try the first connection. Raises Error if that fails, and SchemaTooNew if a migration has
    made the schema too new. Without `restarts` it also raises Error if the consumer cannot continue without
    loss or repetition.
    """
    options = consumer.options
    detail: dict[str, Any] = {
        "handler": target,
        "topic": options.topic,
        "consumer_group": options.group,
        "consumer": options.name,
        "handled": 0,
        "raised": 0,
    }
    # It is the innermost middleware, so it sees what the handler itself raises.
    count = _counter(detail, asynchronous=isinstance(consumer, mqpg.AsyncConsumer))
    counted = consumer.with_options(middleware=(*options.middleware, count))
    # One connection for each concurrent iteration, and some for heartbeats and other calls.
    settings = {"pool_max_size": max(10, options.concurrency + 2)}
    mq = patiently(lambda: mqpg.connect(dsn, **settings), stop, patience)
    if mq is None:
        return
    logger.info("consuming", extra={"handler": target, "topic": options.topic, "consumer_group": options.group})

    def refresh() -> None:
        detail.update(counted.ended_silent)
        detail["blocked_by"] = [_blocked(one, options.group, options.topic) for one in counted.blocked_by]
        if restarts is not None:
            restarts.look()

    def failing() -> object:
        return (restarts and restarts.failing) or counted.failing

    def consume() -> None:
        if isinstance(counted, mqpg.AsyncConsumer):
            run_async(_run_async(counted, dsn, stop, settings))
        else:
            counted.run(mq, stop)

    if not _await_topic(mq, options.topic, stop):
        mq.close()
        return
    _require_name(mq, options, target)
    _note_differences(mq, options, detail)
    beating = _Beating(dsn, Heartbeat("consumer", heartbeat, detail, failing), refresh, stop)
    with mq, beating:
        _repeat(consume, stop, restarts)
        if isinstance(counted, mqpg.Consumer):
            counted.close()
    logger.info("stopped", extra={"handled": detail["handled"], "raised": detail["raised"]})
    if beating.too_new is not None:
        raise beating.too_new


def _repeat(consume: Callable[[], None], stop: threading.Event, restarts: _Restarts | None) -> None:
    """Consume until `stop` is set, also if the consumer cannot continue now."""
    while True:
        try:
            if restarts is not None:
                restarts.begin()
            consume()
            return
        except (HandlerStuck, SchemaTooNew):
            raise
        except Exception as error:
            if restarts is None:
                raise
            if stop.wait(restarts.pause(error)):
                return


def _await_topic(mq: mqpg.Client, topic: str, stop: threading.Event) -> bool:
    """Wait until the topic is there, so that producers and consumers may start in any order.

    False: `stop` was set before.
    """
    if _NAME.fullmatch(topic) is None:
        return True  # it can never be there, and subscribing says so
    waiting = False
    while not stop.is_set():
        try:
            if mq.queries.topic_kind(topic) is not None:
                return True
        except ConnectionFailed:
            return True  # the consumer knows how to wait for its broker
        if not waiting:
            logger.warning("topic %s does not exist yet: waiting for it (mqpg topic create %s makes it)", topic, topic)
            waiting = True
        stop.wait(_TOPIC_PAUSE)
    return False


def _require_name(mq: mqpg.Client, options: ConsumerOptions, target: str) -> None:
    """Raise ConfigurationError outside of a terminal, if queues would stay with a name that nobody chose."""
    if options.is_named or (sys.stdin is not None and sys.stdin.isatty()):
        return
    mode: str | None = options.wanted_mode
    if options.mode is None and options.database is None:
        with suppress(Error):  # running says what is wrong
            mode = mq.queries.subscription_mode(options.group, options.topic)
    if mode == "pinned":
        mq.close()
        raise ConfigurationError(
            f"{target} needs a name, because its queues stay with it: give --consumer or MQPG_CONSUMER, and the same "
            "one after each restart"
        )


def _note_differences(mq: mqpg.Client, options: ConsumerOptions, detail: dict[str, Any]) -> None:
    """Note for status and why what the consumer itself logs: options that the subscription has otherwise."""
    if not options.subscribe:
        return
    with suppress(Error):  # running says what is wrong
        found = mq.queries.subscription_differences(options.group, options.topic, **options.of_subscription)
        if found:
            detail["subscription_differs"] = [f"{name} is {has}, not {wanted}" for name, has, wanted in found]


async def _run_async(consumer: mqpg.AsyncConsumer, dsn: str, stop: threading.Event, settings: dict[str, Any]) -> None:
    stopping, loop, over = asyncio.Event(), asyncio.get_running_loop(), threading.Event()

    def forward() -> None:
        while not stop.wait(1.0):
            if over.is_set():
                return
        if not loop.is_closed():
            loop.call_soon_threadsafe(stopping.set)

    threading.Thread(target=forward, name="mqpg-stop", daemon=True).start()
    try:
        async with await mqpg.connect_async(dsn, **settings) as mq:
            await consumer.run(mq, stopping)
            await consumer.close()
    finally:
        over.set()


def _counter(detail: dict[str, Any], *, asynchronous: bool) -> Callable[..., Any]:
    """Middleware that counts handled messages, whether or not their effects are committed later."""
    lock = threading.Lock()

    def count(given: Any, what: str) -> None:
        with lock:
            detail[what] += len(given) if isinstance(given, list) else 1

    def call(given: Any, proceed: Callable[[], Any]) -> Any:
        try:
            result = proceed()
        except Exception:
            count(given, "raised")
            raise
        count(given, "handled")
        return result

    async def call_async(given: Any, proceed: Callable[[], Any]) -> Any:
        try:
            result = await proceed()
        except Exception:
            count(given, "raised")
            raise
        count(given, "handled")
        return result

    return call_async if asynchronous else call


def _blocked(queues: AbandonedQueues, group: str, topic: str) -> dict[str, Any]:
    """What worker_status says about queues whose owner is gone, with the call that frees them."""
    names = f"'{group}', '{topic}'"
    return {
        "consumer": queues.consumer,
        "queues": queues.queues,
        "lag": queues.lag,
        "since": queues.since.isoformat(),
        "unpin": f"select mqpg.unpin({names}, consumer => '{queues.consumer}')",
    }


class _Beating:
    """Heartbeats from a thread with a connection of its own, because a handler may take long.

    It also sets `stop` if a migration has made the schema too new for this release.
    """

    def __init__(self, dsn: str, heartbeat: Heartbeat, refresh: Callable[[], None], stop: threading.Event) -> None:
        self.too_new: SchemaTooNew | None = None
        self._dsn, self._heartbeat, self._done = dsn, heartbeat, threading.Event()
        self._refresh, self._stop = refresh, stop
        self._thread = threading.Thread(target=self._run, name="mqpg-heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        stay_connected(self._dsn, "consumer heartbeat", self._beat, self._done, on_too_new=self._end)

    def _end(self, error: SchemaTooNew) -> None:
        self.too_new = error
        self._stop.set()

    def _beat(self, conn: Connection) -> None:
        self._heartbeat.beat(conn, "active")
        while not self._done.wait(self._heartbeat.due_in()):
            self._refresh()
            self._heartbeat.beat(conn, "active")
        self._heartbeat.beat(conn, "stopped")
