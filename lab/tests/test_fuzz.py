"""A small part of `make fuzz`. MQPG_TEST_SEED repeats a run."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from lab.fuzz.sql import SqlFuzzer
from tests.fixtures.databases import Databases
from tests.support.broker import Broker

CALLS = 2000


@pytest.mark.timeout(600)  # half a minute on a quiet machine
def test_random_calls_of_every_sql_function(databases: Databases, template: str, rng: random.Random) -> None:
    with databases.lent(template) as dsn, closing(Broker(dsn)) as broker:
        fuzz = SqlFuzzer(broker, rng.getrandbits(32))
        report = fuzz.run(CALLS)
        faults = [f"{len(calls)} times {what}\n    {calls[0]}" for what, calls in report.faults.items()]
        assert not faults, "\n".join(["codes that no caller expects:", *faults])
        assert not report.never, f"functions that never succeeded: {report.never}"
        fuzz.require_whole()
