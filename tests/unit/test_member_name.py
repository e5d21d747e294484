"""The default name of a member: the same after a restart, and another one for another database of effects."""

import os
import socket
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from mqpg.handlers.options import ConsumerOptions

URL = "postgresql+psycopg://app:secret@db:5432/shop"


def name(database: object = None, consumer: str | None = None) -> str:
    return ConsumerOptions("t", "g", database=database, consumer=consumer).name


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQPG_CONSUMER", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "box")


def test_it_is_the_hosts() -> None:
    assert name() == "box"
    assert name(consumer="mine") == "mine"


def test_each_database_of_effects_has_its_own_and_keeps_it() -> None:
    assert name(URL) == name(URL) == name("postgresql://other:password@db:5432/shop")
    assert name(URL).startswith("box.")
    assert len({name(), name(URL), name(URL + "2"), name("sqlite:////data/a.db"), name("sqlite:////data/b.db")}) == 5


def test_an_engine_and_its_url_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    assert name(engine) == name(f"sqlite:///{tmp_path / 'a.db'}")
    monkeypatch.chdir(tmp_path)
    assert name("sqlite:///a.db") == name(engine)
    engine.dispose()


def test_what_is_said_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MQPG_CONSUMER", "two")
    assert name(URL) == "two"


def test_a_strange_host_makes_a_valid_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "_böx" + "x" * 200)
    assert name().startswith("xb-xx")
    assert len(name(URL)) <= 127
