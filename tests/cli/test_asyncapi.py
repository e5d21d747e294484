"""`mqpg asyncapi`: what consumers read, and what a broker has, as an AsyncAPI document."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def describe(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The document of a module, whose references all lead somewhere."""

    def made_of(name: str, module: str, *options: str) -> Any:
        (tmp_path / f"{name}.py").write_text(module)
        monkeypatch.syspath_prepend(tmp_path)
        status, out, err = run("asyncapi", name, *options)
        assert status == 0, err
        made = json.loads(out)
        assert all(read(made, place) for place in refs(made))
        return made

    return made_of


def test_consumers_of_a_module(describe: Callable[..., Any]) -> None:
    made = describe("asyncapi_shop", MODULE, "--title", "Shop", "--version", "2")
    assert (made["asyncapi"], made["info"]) == ("3.1.0", {"title": "Shop", "version": "2"})
    channel = made["channels"]["shop_orders"]
    assert (channel["address"], list(channel["messages"])) == ("shop.orders", ["Order"])
    payload = channel["messages"]["Order"]["payload"]
    assert payload["properties"]["lines"]["items"] == {"$ref": "#/components/schemas/Line"}
    assert made["components"]["schemas"]["Line"]["required"] == ["item"]
    assert made["channels"]["clicks"]["messages"]["json"]["payload"] is True
    assert set(made["operations"]) == {"billing-shop_orders", "copies-shop_orders", "counts-clicks"}


ALIKE = """
from dataclasses import dataclass
import mqpg

def order(of):
    @dataclass
    class Line:
        item: of

    @dataclass
    class Order:
        lines: list[Line]

    return Order

Old, New = order(int), order(str)

@mqpg.consumer("shop.orders", group="billing")
def bill(order: Old, conn):
    pass

@mqpg.consumer("shop.orders", group="billing")
def bill_new(order: New, conn):
    pass

@mqpg.consumer("shop_orders", group="billing")
def other(order: New, conn):
    pass

@mqpg.consumer("c", group="a-b")
def one(message, conn):
    pass

@mqpg.consumer("b-c", group="a")
def two(message, conn):
    pass
"""


def test_names_that_are_alike(describe: Callable[..., Any]) -> None:
    """Topics, groups and types that are written alike in keys stay apart."""
    made = describe("asyncapi_alike", ALIKE)
    read_by = {
        (one["title"], read(made, one["channel"]["$ref"])["address"]): [
            item_of(made, read(made, message["$ref"])["payload"]) for message in one["messages"]
        ]
        for one in made["operations"].values()
    }
    assert read_by == {
        ("billing", "shop.orders"): ["integer", "string"],
        ("billing", "shop_orders"): ["string"],
        ("a-b", "c"): [None],
        ("a", "b-c"): [None],
    }


def item_of(made: Any, payload: Any) -> str | None:
    """The type of `lines[*].item`. None: any payload."""
    if payload is True:
        return None
    line = read(made, payload["properties"]["lines"]["items"]["$ref"])
    return str(line["properties"]["item"]["type"])


def refs(found: Any) -> Iterator[str]:
    """Every `$ref` of a document."""
    for name, one in found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ():
        if name == "$ref":
            yield one
        else:
            yield from refs(one)


def read(made: Any, place: str) -> Any:
    """What a `$ref` leads to."""
    for part in place.removeprefix("#/").split("/"):
        made = made[part]
    return made


def test_a_broker(run: Run, db: psycopg.Connection) -> None:
    db.execute("select mqpg.create_topic('orders'), mqpg.create_topic('unread'), mqpg.subscribe('billing', 'orders')")
    made = json.loads(run("asyncapi")[1])
    assert set(made["channels"]) == {"orders", "unread"}
    assert [one["title"] for one in made["operations"].values()] == ["billing"]
    assert run("asyncapi", "no_such_module")[0] == 2
