"""A small part of `make fuzz`. MQPG_TEST_SEED repeats a run."""

from __future__ import annotations

import random

import mqpg
from lab.fuzz.client import ClientFuzzer
from lab.fuzz.command import CommandFuzzer
from lab.fuzz.sql import SqlFuzzer
from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.support.broker import Broker

CALLS, CLIENT_CALLS, COMMAND_CALLS = 2000, 500, 60


def test_random_calls_of_every_sql_function(
    server: Server, databases: Databases, template: str, rng: random.Random
) -> None:
    name = databases.create(template)
    broker = Broker(server.dsn(name))
    try:
        fuzz = SqlFuzzer(broker, rng.getrandbits(32))
        report = fuzz.run(CALLS)
        faults = [f"{len(calls)} times {what}\n    {calls[0]}" for what, calls in report.faults.items()]
        assert not faults, "\n".join(["codes that no caller expects:", *faults])
        assert not report.never, f"functions that never succeeded: {report.never}"
        fuzz.require_whole()
    finally:
        broker.close()
        databases.drop(name)


def test_random_calls_of_the_client(dsn: str, rng: random.Random) -> None:
    with mqpg.connect(dsn) as mq:
        report = ClientFuzzer(mq, rng.getrandbits(32)).run(CLIENT_CALLS)
    assert not report.faults, dict(report.faults)
    assert report.outcomes["ok"] > CLIENT_CALLS / 20


def test_random_arguments_of_the_commands(dsn: str, rng: random.Random) -> None:
    report = CommandFuzzer(dsn, rng.getrandbits(32)).run(COMMAND_CALLS)
    assert not report.faults, dict(report.faults)
