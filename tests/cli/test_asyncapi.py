"""`mqpg asyncapi`: what consumers read, and what a broker has, as an AsyncAPI document."""

import json
from pathlib import Path

import psycopg
import pytest

from tests.support.in_process import Run

MODULE = """
from dataclasses import dataclass
import mqpg

@dataclass
class Line:
    item: str

@dataclass
class Order:
    id: int
    lines: list[Line]

@mqpg.consumer("shop.orders", group="billing")
def bill(order: Order, conn):
    pass

@mqpg.consumer("shop.orders", group="copies", batch=True)
def copy(orders: list[Order], conn):
    pass

@mqpg.consumer("clicks", group="counts")
def count(message, conn):
    pass
"""


def test_consumers_of_a_module(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asyncapi_shop.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    status, out, err = run("asyncapi", "asyncapi_shop", "--title", "Shop", "--version", "2")
    assert status == 0, err
    made = json.loads(out)
    assert (made["asyncapi"], made["info"]) == ("3.1.0", {"title": "Shop", "version": "2"})
    channel = made["channels"]["shop_orders"]
    assert (channel["address"], list(channel["messages"])) == ("shop.orders", ["Order"])
    payload = channel["messages"]["Order"]["payload"]
    assert payload["properties"]["lines"]["items"] == {"$ref": "#/components/schemas/Line"}
    assert made["components"]["schemas"]["Line"]["required"] == ["item"]
    assert made["channels"]["clicks"]["messages"]["json"]["payload"] is True
    assert set(made["operations"]) == {"billing-shop_orders", "copies-shop_orders", "counts-clicks"}
    for one in made["operations"].values():
        for place in (one["channel"], *one["messages"]):
            found = made
            for part in place["$ref"].removeprefix("#/").split("/"):
                found = found[part]


def test_a_broker(run: Run, db: psycopg.Connection) -> None:
    db.execute("select mqpg.create_topic('orders'), mqpg.create_topic('unread'), mqpg.subscribe('billing', 'orders')")
    made = json.loads(run("asyncapi")[1])
    assert set(made["channels"]) == {"orders", "unread"}
    assert [one["title"] for one in made["operations"].values()] == ["billing"]
    assert run("asyncapi", "no_such_module")[0] == 2
