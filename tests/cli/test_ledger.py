"""`mqpg ledger`: the ledger's table is made and purged from the command line."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import mqpg
from tests.support.in_process import Run


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, dsn: str) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/shop.db"
    else:
        yield make_url(dsn).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def done(run: Run, *arguments: str) -> dict[str, Any]:
    status, out, err = run("ledger", *arguments, "--json")
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def handles(url: str) -> list[str]:
    with closing(mqpg.Ledger(url)) as ledger:
        return [row.handle for row in ledger._open_rows()]


def test_create_and_purge(url: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are marked done go, with their messages. Open ones and the identity stay."""
    monkeypatch.setenv("MQPG_LEDGER_SHOP", url)
    assert run("ledger", "purge", "shop")[0] != 0
    assert len(done(run, "create", "shop", "--keep-messages")["databases"]) == 1
    assert run("ledger", "create", "shop")[1].startswith("there is a ledger in ")
    assert done(run, "create", url)["action"] == "create_ledger"
    with closing(mqpg.Ledger(url)) as ledger:
        with ledger.database.engine.begin() as conn:
            for number in range(3):
                ledger.begin(conn, f"b.1.{number}.x", "orders")
        ledger.mark_done(["b.1.0.x", "b.1.1.x"])
        identities = ledger.known_identities()
        time.sleep(0.01)
        assert done(run, "purge", "shop")["rows"] == 0  # not for a day
        assert "deleted 2 rows of the ledger in " in run("ledger", "purge", url, "--days", "0")[1]
        assert ledger.known_identities() == identities != []
    assert handles(url) == ["b.1.2.x"]


def test_several_databases_under_one_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two")]
    monkeypatch.setenv("MQPG_LEDGER_SHOP", " ".join(urls))
    assert len(done(run, "create", "shop")["databases"]) == 2
    assert done(run, "purge", "shop", "--days", "0")["rows"] == 0
    assert [handles(url) for url in urls] == [[], []]


def test_what_is_wrong_is_said(run: Run, tmp_path: Path) -> None:
    status, _, err = run("ledger", "purge", "absent")
    assert (status, "MQPG_LEDGER_ABSENT is not set" in err) == (2, True)
    status, _, err = run("ledger", "purge", f"sqlite:///{tmp_path}/empty.db")
    assert (status, "mqpg_ledger" in err) == (1, True), err
