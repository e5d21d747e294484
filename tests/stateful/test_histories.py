"""Random histories of calls on several connections against a model of the queue: I1 to I10 and I12.

Hypothesis makes the histories and finds a short failing one by itself. Each run is new; MQPG_TEST_SEED repeats
one, MQPG_STATEFUL_EXAMPLES and MQPG_STATEFUL_STEPS make it longer, MQPG_STATEFUL_BLOB replays one failure.
"""

import os
import secrets
import time
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.fixtures.databases import Databases, OwnServer
from tests.stateful.admin import Admin
from tests.stateful.checks import Checks
from tests.stateful.crashes import Crashes, ServerCrashes
from tests.stateful.invariants import rewritten
from tests.stateful.machine import Base
from tests.stateful.prepared import prepared

EXAMPLES = int(os.environ.get("MQPG_STATEFUL_EXAMPLES", "20"))
STEPS = int(os.environ.get("MQPG_STATEFUL_STEPS", "50"))
MINUTES = float(os.environ.get("MQPG_STATEFUL_MINUTES", "0"))


class QueueMachine(Checks, Admin, Crashes):
    """Everything at once."""


class CrashingMachine(ServerCrashes, QueueMachine):
    """Everything at once, and the server dies now and then."""


@pytest.fixture
def machine(databases: Databases, template: str) -> Iterator[type[QueueMachine]]:
    with databases.lent(template) as dsn:
        broker = prepared(dsn)
        yield QueueMachine
        Base.disconnect()
        broker.close()


@pytest.fixture
def crashing_machine(own_server: OwnServer) -> Iterator[type[CrashingMachine]]:
    broker = prepared(own_server.dsn)
    CrashingMachine.server = own_server.server
    yield CrashingMachine
    Base.disconnect()
    broker.close()


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


def look_back(seed: int, before: int, started: float) -> None:
    """Print how much it was, and require that no hot table was ever updated."""
    made = ", ".join(f"{name} {n}" for name, n in Base.made.most_common())
    print(f"seed {seed}: {Base.steps - before} steps in {time.monotonic() - started:.0f} s; {made}", flush=True)
    Base.made.clear()
    Base.disconnect()  # a session reports to the statistics when it ends
    assert rewritten(Base.broker.session()) == [], "I10"


@pytest.fixture
def first_seed() -> int:
    return int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32))


@pytest.mark.timeout(1200 + MINUTES * 60)  # shrinking a failure takes its time
@pytest.mark.parametrize("part", range(1 if MINUTES else 2))
def test_random_histories_agree_with_the_model(machine: type[QueueMachine], first_seed: int, part: int) -> None:
    """In two parts, because a step costs the more the more histories its database has seen."""
    started, before, seed = time.monotonic(), Base.steps, first_seed + part
    run(machine, seed, EXAMPLES)
    while time.monotonic() - started < MINUTES * 60:
        seed += 1
        run(machine, seed, EXAMPLES)
    look_back(first_seed + part, before, started)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_random_histories_agree_with_the_model_while_the_server_crashes(
    crashing_machine: type[CrashingMachine], first_seed: int
) -> None:
    started, before = time.monotonic(), Base.steps
    run(crashing_machine, first_seed, max(EXAMPLES // 10, 4))
    look_back(first_seed, before, started)
