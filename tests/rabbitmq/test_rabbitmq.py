"""T4 over RabbitMQ: the example, whose processes and whose broker are killed at each step.

The ids are compared at the producer and at the consumer: each order that is in the shop is shipped once, and no other.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, text

from examples.rabbitmq import orders as example
from tests.rabbitmq.server import ROOT, RabbitMQ
from tests.rabbitmq.victims import Point, Site, Victim
from tests.support.waiting import eventually

pytestmark = [pytest.mark.rabbitmq, pytest.mark.chaos, pytest.mark.timeout(400)]

SHOP = [
    Point("Shop", "before", "store"),
    Point("Shop", "after", "store"),  # P1
    Point("Shop", "unconfirmed", "publish"),  # P2
    Point("Shop", "after", "publish"),  # P3
    Point("Shop", "after", "decide"),  # in P4, before its commit
    Point("Shop", "before", "publish", 2),  # P4
    Point("Shop", "unconfirmed", "publish", 2),  # P5
    Point("Shop", "after", "publish", 2),  # P6
    Point("Shop", "after", "delete"),  # P7
]
# The 1st message is a PREPARE, the 2nd its COMMIT, the 4th a ROLLBACK.
WAREHOUSE = [
    *(Point("Warehouse", "before", "handle", nth) for nth in (1, 2, 4)),  # S2, S6
    *(Point("Warehouse", "after", "handle", nth) for nth in (1, 2, 4)),  # in S3, S7, before its commit
    *(Point("Warehouse", "before", "acknowledge", nth) for nth in (1, 2, 4)),  # S3, S7
    *(Point("Warehouse", "after", "acknowledge", nth) for nth in (1, 2, 4)),  # S4, S8
    # PREPARE and COMMIT are applied, and RabbitMQ knows of neither.
    *(Point("Warehouse", "unacknowledged", "acknowledge", nth) for nth in (2, 4)),
]


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[RabbitMQ]:
    # Not below pytest's own folder, whose names are too long for sockets.
    with tempfile.TemporaryDirectory(prefix="mqpg-rabbitmq-", ignore_cleanup_errors=True) as folder:
        server = RabbitMQ(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.close()


@pytest.fixture
def site(rabbitmq: RabbitMQ, tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    return Site(rabbitmq.url, request.node.name, tmp_path)


def trade(site: Site, orders: range) -> None:
    """Recover, and sell; every third order is rolled back."""
    shop = site.shop()
    shop.recover()
    for order in orders:
        try:
            shop.sell(order, 0 if order % 3 == 0 else 90)
        except ValueError:
            shop.recover()
    shop.channel.connection.close()
    shop.engine.dispose()


def ship(site: Site) -> None:
    warehouse = site.warehouse()
    warehouse.work(patience=0.1)
    warehouse.channel.connection.close()
    warehouse.engine.dispose()


def sold(site: Site) -> list[int]:
    with site.engine("shop").connect() as conn:
        return sorted(conn.execute(select(example.orders.c.id)).scalars())


def shipped(site: Site) -> list[int]:
    with site.engine("warehouse").connect() as conn:
        return sorted(conn.execute(select(example.shipped.c.order_id)).scalars())


def settle(site: Site) -> None:
    """Start shop and warehouse again, let them end their work, and compare the ids."""
    trade(site, range(11, 15))

    def done() -> bool:
        ship(site)
        with site.engine("warehouse").connect() as conn:
            held = conn.execute(text("select count(*) from mqpg_prepared where payload <> ''")).scalar_one()
        return held == 0 and len(shipped(site)) >= len(sold(site))

    eventually(done, 120)
    ship(site)
    assert shipped(site) == sold(site)
    assert set(sold(site)) >= {11, 13, 14}
    assert 12 not in sold(site)
    with site.engine("shop").connect() as conn:
        assert conn.execute(text("select count(*) from outbox")).scalar_one() == 0


def start(site: Site, point: Point, *, waits: bool = False) -> Victim:
    if point.role == "Warehouse":
        trade(site, range(2, 5))  # 2 is committed, 3 rolled back, 4 committed
    return Victim(site, point, waits=waits)


@pytest.mark.parametrize("point", [*SHOP, *WAREHOUSE], ids=str)
def test_killed_process(site: Site, point: Point) -> None:
    assert start(site, point).ended() == -signal.SIGKILL
    settle(site)


def test_killed_broker(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """One crash of the broker, while a process waits at each step. Some of them fail after it, and some end their step."""
    points = [*SHOP, *WAREHOUSE]
    sites = [Site(rabbitmq.url, f"broker-{number:02}", tmp_path) for number in range(len(points))]
    victims = [start(site, point, waits=True) for site, point in zip(sites, points, strict=True)]
    for victim in victims:
        victim.wait_at_point()
    for site in sites:
        eventually(partial(rabbitmq.has_on_disk, site.queue))
    rabbitmq.kill()
    for victim in victims:
        victim.resume()
    assert {victim.ended() for victim in victims} == {1}
    rabbitmq.start()
    for site in sites:
        settle(site)


def test_the_example_as_it_is(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/rabbitmq/orders.py"), rabbitmq.url, "shop.db", "warehouse.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said = ["rolled back: order 2 has no amount", "sold: [1, 3]", "shipped: [1, 3]"]
    assert done.stdout.splitlines() == said
