"""A schema that lacks a part: `status`, `why` and `doctor` name it and the remedy, and `mqpg migrate` mends it."""

import pytest

from tests.fixtures.databases import Connection
from tests.support.in_process import Run

CODE = [
    "function mqpg.schema_version()",
    "function mqpg._broker()",
    "function mqpg.reconcile",
    "function mqpg.seek",
    "function mqpg._require_subscription",
    "view mqpg.subscription_lag",
    "view mqpg.worker_status",
    "view mqpg.half_pending",
    "view mqpg_audit.pending",
]
TABLES = ["topic", "subscription", "worker", "settings", "segment", "commit_log", "broker"]
COMMANDS = [("status",), ("status", "--workers"), ("why",), ("why", "1"), ("doctor",), ("doctor", "--schema")]


@pytest.fixture
def broker(run: Run) -> Run:
    assert run("topic", "create", "orders")[0] == 0
    assert run("send", "orders", "1")[0] == 0
    return run


def require_named(run: Run, name: str, remedy: str) -> None:
    """No command ends in an error of the server alone. Doctor names the part."""
    for words in COMMANDS:
        status, out, err = run(*words)
        said = out + err
        if "does not exist" in said or "is missing: run" in said:
            assert "mqpg migrate" in said, (words, said)
            assert status == (1 if words[0] == "doctor" and out else 3), (words, said)
        assert "Traceback" not in said
    assert name in said, said
    assert remedy in said, said


def installed(db: Connection, part: str) -> bool:
    kind, _, name = part.partition(" ")
    ask = {"function": "to_regproc", "view": "to_regclass"}[kind] if "(" not in name else "to_regprocedure"
    return db.execute(f"select {ask}(%s) is not null".encode(), [name]).fetchone() == (True,)


@pytest.mark.parametrize("part", CODE)
def test_functions_and_views_are_made_again(broker: Run, db: Connection, part: str) -> None:
    db.execute(f"drop {part} cascade".encode())
    require_named(broker, part.split()[1].partition("(")[0], "run mqpg migrate")
    assert broker("migrate")[0] == 0
    assert installed(db, part)
    assert broker("doctor", "--schema")[0] == 0
    assert broker("status")[0] == 1  # no worker is at work


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_named(broker: Run, db: Connection, table: str) -> None:
    db.execute(f"drop table mqpg.{table} cascade".encode())
    require_named(broker, f"mqpg.{table}", "restore a backup")


def test_an_earlier_revision(broker: Run, db: Connection) -> None:
    db.execute("alter table mqpg.broker rename column incarnation to earlier")
    status, out, err = broker("status")
    assert status == 3
    assert "incarnation" in out + err
    assert "run mqpg migrate" in out + err


def test_migrate_changes_nothing_if_nothing_is_missing(broker: Run, db: Connection) -> None:
    query = b"select replaced_at, xmin::text from mqpg.installation"
    before = db.execute(query).fetchone()
    assert broker("migrate")[0] == 0
    assert db.execute(query).fetchone() == before
