"""Runs one consumer of an application, for `mqpg consume`."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mqpg
from mqpg.values.arguments import interval
from mqpg.values.errors import ConfigurationError, ConnectionFailed, Error, SchemaTooNew
from mqpg.values.messages import AbandonedQueues

from .heartbeat import Heartbeat
from .session import Connection, patiently, stay_connected

__all__ = ["AnyConsumer", "load", "parse_queues", "run", "with_options"]

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}")
_TOPIC_PAUSE = 1.0  # seconds between two looks for a topic that is not there

AnyConsumer = mqpg.Consumer | mqpg.AsyncConsumer


def load(target: str) -> AnyConsumer:
    """Import a consumer by `module:name`. Modules of the working directory are found, too."""
    module_name, separator, name = target.partition(":")
    if not (separator and module_name and name):
        raise ConfigurationError(f"handler must be module:name, for instance shop.billing:bill, not {target!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    found: Any = _import(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, AnyConsumer):
        raise ConfigurationError(
            f"handler {target} is a {type(found).__name__} and not a consumer: decorate it with @mqpg.consumer"
        )
    return found


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:
        logger.debug("import failed", exc_info=True)
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if "importlib" in place.filename else f" ({place.filename}:{place.lineno})"
        raise ConfigurationError(f"cannot import {name!r}: {type(error).__name__}: {error}{where}") from error


def parse_queues(text: str) -> list[int]:
    """Parse numbers and ranges of queues, for instance `0-3,6`."""
    queues: set[int] = set()
    for part in text.split(","):
        first, separator, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not separator)) or int(last or first) < int(first):
            raise ConfigurationError(f"--queues must look like 0-3,6, not {text!r}")
        queues.update(range(int(first), int(last or first) + 1))
    return sorted(queues)


def with_options(made: AnyConsumer, **changes: Any) -> AnyConsumer:
    """A copy of a consumer with other options. One that is None keeps the consumer's own value."""
    given = {name: value for name, value in changes.items() if value is not None}
    return _remade(made, replace(made.options, **given))


def _remade(made: AnyConsumer, options: Any) -> AnyConsumer:
    kind: Any = type(made)
    remade: AnyConsumer = kind(made.handler, options)
    return remade


def run(
    consumer: AnyConsumer, target: str, dsn: str, stop: threading.Event, *, heartbeat: float, patience: float
) -> None:
    """Consume until `stop` is set. An iteration that has begun is finished.

    `target` is the consumer's `module:name`, for the log and worker_status. `patience` is how many
    seconds to try the first connection. Raises Error if that fails or the consumer cannot continue
    without loss or repetition, and SchemaTooNew if a migration has made the schema too new.
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
    counted = _remade(consumer, replace(options, middleware=(*options.middleware, count)))
    # One connection for each concurrent iteration, and some for heartbeats and other calls.
    settings = {"pool_max_size": max(10, options.concurrency + 2)}
    mq = patiently(lambda: mqpg.connect(dsn, **settings), stop, patience)
    if mq is None:
        return
    logger.info("consuming", extra={"handler": target, "topic": options.topic, "consumer_group": options.group})

    def refresh() -> None:
        detail["blocked_by"] = [_blocked(one, options.group, options.topic) for one in counted.blocked_by]

    if not _await_topic(mq, options.topic, stop):
        mq.close()
        return

    if differences := _differences(mq, options):
        detail["subscription_differs"] = differences
        logger.warning(
            "the subscription has other options than the decorator, which mqpg subscription alter changes: %s",
            "; ".join(differences),
        )
    beating = _Beating(dsn, Heartbeat("consumer", heartbeat, detail, lambda: counted.failing), refresh, stop)
    with mq, beating:
        if isinstance(counted, mqpg.AsyncConsumer):
            asyncio.run(_run_async(counted, dsn, stop, settings))
        else:
            counted.run(mq, stop)
            counted.close()
    logger.info("stopped", extra={"handled": detail["handled"], "raised": detail["raised"]})
    if beating.too_new is not None:
        raise beating.too_new


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


def _differences(mq: mqpg.Client, options: Any) -> list[str]:
    """What the subscription has otherwise than the decorator says. That is for a new subscription only."""
    if not options.subscribe:
        return []
    wanted = {
        "filter": options.filter,
        "tags": options.tags and list(options.tags),
        "max_attempts": options.max_attempts,
        "retry_delay": interval(options.retry_delay),
        "on_failure": options.on_failure,
    }
    try:
        return mq.queries.subscription_differences(options.group, options.topic, **wanted)
    except Error:
        return []  # running says what is wrong


async def _run_async(consumer: mqpg.AsyncConsumer, dsn: str, stop: threading.Event, settings: dict[str, Any]) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def forward() -> None:
        stop.wait()
        if not loop.is_closed():
            loop.call_soon_threadsafe(stopping.set)

    threading.Thread(target=forward, name="mqpg-stop", daemon=True).start()
    async with await mqpg.connect_async(dsn, **settings) as mq:
        await consumer.run(mq, stopping)
        await consumer.close()


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
