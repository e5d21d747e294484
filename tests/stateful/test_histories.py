"""Random histories of calls on several connections against a model of the queue: I1 to I10 and I12.

Hypothesis makes the histories and finds a short failing one by itself. Each run is new; MQPG_TEST_SEED repeats
one, MQPG_STATEFUL_EXAMPLES and MQPG_STATEFUL_STEPS make it longer, MQPG_STATEFUL_BLOB replays one failure.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.sql.harness import Broker, eventually, seconds
from tests.stateful.admin import Admin
from tests.stateful.checks import Checks
from tests.stateful.crashes import Crashes
from tests.stateful.invariants import rewritten
from tests.stateful.machine import Base

EXAMPLES = int(os.environ.get("MQPG_STATEFUL_EXAMPLES", "60"))
STEPS = int(os.environ.get("MQPG_STATEFUL_STEPS", "50"))
MINUTES = float(os.environ.get("MQPG_STATEFUL_MINUTES", "0"))


class QueueMachine(Checks, Admin, Crashes):
    """Everything at once."""


@pytest.fixture(scope="module")
def machine(server: Server, databases: Databases, template: str) -> Iterator[type[QueueMachine]]:
    name = databases.create(template)
    broker = Base.broker = Broker(server.dsn(name))
    session = broker.session()
    session.call("create_producer_group", "pg", check_after=seconds(3600))
    session.call("create_producer_group", "ledger", check_after=seconds(0.01), checker="ledger")
    session.call("create_producer_group", "polled", check_after=seconds(0.01), max_checks=2)
    named = {"check_after": seconds(0.01), "max_checks": 2, "on_exhausted": "rollback"}
    session.call("create_producer_group", "polled_rollback", **named)
    session.execute("update mqpg.settings set value = '40 ms' where name = 'lock_timeout'")
    yield QueueMachine
    Base.disconnect()
    broker.close()
    databases.drop(name)


def run(machine: type[QueueMachine], seed: int, examples: int) -> None:
    print(f"MQPG_TEST_SEED={seed} MQPG_STATEFUL_EXAMPLES={examples} MQPG_STATEFUL_STEPS={STEPS}", flush=True)
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    seeded = hypothesis.seed(seed)(machine)
    blob = os.environ.get("MQPG_STATEFUL_BLOB")
    if blob:
        seeded = hypothesis.reproduce_failure(hypothesis.__version__, blob.encode())(seeded)
    run_state_machine_as_test(seeded, settings=settings)


@pytest.mark.timeout(1200)
def test_random_histories_agree_with_the_model(machine: type[QueueMachine]) -> None:
    seed = int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32))
    started, before = time.monotonic(), Base.steps
    run(machine, seed, EXAMPLES)
    while time.monotonic() - started < MINUTES * 60:
        seed += 1
        run(machine, seed, EXAMPLES)
    print(
        f"{Base.steps - before} steps in {time.monotonic() - started:.0f} s; calls and refusals: {dict(Base.made.most_common())}"
    )
    session = Base.broker.session()
    eventually(lambda: session.scalar("select pg_stat_force_next_flush() is not null"))
    assert rewritten(session) == [], "I10"
