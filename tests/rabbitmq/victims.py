"""Processes of the example that die, or wait, before or after a step.

They are forked from one process that has imported everything, so a crash costs milliseconds.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pika
from sqlalchemy import Engine, create_engine, event

from examples.rabbitmq.orders import Shop, Warehouse, open_channel

__all__ = ["Point", "Site", "Victim"]

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["pytest", "tests.rabbitmq.victims"])


@dataclass(frozen=True)
class Point:
    """Before or after the nth call of a step of a class of the example."""

    role: str  # Shop, Warehouse
    when: str  # before, after, unconfirmed (sent, and its confirmation never read), unacknowledged (none sent so far)
    step: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.role} {self.when} {self.step} {self.nth}"


@dataclass(frozen=True)
class Site:
    """One shop, one warehouse and the queue between them."""

    url: str
    queue: str
    folder: Path

    def engine(self, name: str) -> Engine:
        engine = create_engine(f"sqlite:///{self.folder / self.queue}-{name}.db")

        @event.listens_for(engine, "connect")
        def fast(connection: Any, record: Any) -> None:
            connection.execute("pragma synchronous = off")  # a killed process loses nothing; a computer would

        return engine

    def shop(self) -> Shop:
        return Shop(self.engine("shop"), open_channel(self.url, self.queue), self.queue)

    def warehouse(self) -> Warehouse:
        return Warehouse(self.engine("warehouse"), open_channel(self.url, self.queue), self.queue)


class Victim:
    """A process that works until it is at its point. There it is killed, or (`waits`) it stops until `resume`."""

    def __init__(self, site: Site, point: Point, *, waits: bool = False) -> None:
        self._pipe, theirs = _FORKS.Pipe()
        self.process = _FORKS.Process(target=_run, args=(site, point, theirs if waits else None))
        self.process.start()
        theirs.close()

    def wait_at_point(self) -> None:
        assert self._pipe.poll(60), "it never came to its point"
        assert self._pipe.recv() == "here"

    def resume(self) -> None:
        self._pipe.send("go")

    def ended(self) -> int | None:
        self.process.join(60)
        code = self.process.exitcode
        self.process.close()
        self._pipe.close()
        return code


def _run(site: Site, point: Point, pipe: Connection | None) -> None:
    def at_point() -> None:
        if pipe is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            pipe.send("here")
            pipe.recv()

    _stop_at(point, at_point)
    if point.role == "Shop":
        shop = site.shop()
        for order in (1, 2):
            shop.sell(order, 90)
    else:
        site.warehouse().work(patience=60)


def _stop_at(point: Point, at_point: Callable[[], None]) -> None:
    owner = {"Shop": Shop, "Warehouse": Warehouse}[point.role]
    step: Callable[..., Any] = getattr(owner, point.step)
    calls = 0

    def call(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls != point.nth:
            if point.when != "unacknowledged":
                step(*args)
            return
        if point.when == "before":
            at_point()
        if point.when == "unconfirmed":
            _publish_unconfirmed(*args)
            at_point()
        elif point.when == "unacknowledged":
            at_point()
        step(*args)
        if point.when == "after":
            at_point()

    setattr(owner, point.step, call)


def _publish_unconfirmed(shop: Shop, id: str, phase: str, body: Any = None) -> None:
    """What `publish` has done when its process dies before the confirmation arrives."""
    properties = pika.BasicProperties(delivery_mode=2, headers={"mqpg-phase": phase, "mqpg-handle": id})
    channel = shop.channel.connection.channel()
    channel.basic_publish("", shop.queue, json.dumps(body).encode(), properties)
    channel.close()
