"""A producer group whose ledger gives no verdict is said before a half message is overdue, by every way to look."""

import logging
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import mqpg
from tests.support.in_process import Run
from tests.support.processes import Processes
from tests.support.waiting import eventually

Connection = psycopg.Connection[tuple[object, ...]]
UNKNOWN = "no compensator knows the ledger shop"
CHANGES: dict[str, Callable[[mqpg.Client], object]] = {
    "create": lambda mq: mq.create_producer_group("new", checker="url", checker_target="shop"),
    "create again": lambda mq: mq.create_producer_group("pg", checker="url", checker_target="shop"),
    "alter": lambda mq: mq.alter_producer_group("plain", checker="url", checker_target="shop"),
}
COMMANDS = {
    "create": ("create", "new", "--checker", "url", "--target", "shop"),
    "create again": ("create", "pg", "--checker", "url", "--target", "shop"),
    "alter": ("alter", "plain", "--checker", "url", "--target", "shop"),
}


@pytest.fixture(autouse=True)
def groups(dsn: str) -> None:
    """A group whose ledger is in another database, and one whose ledger is not."""
    with mqpg.connect(dsn) as mq:
        mq.create_producer_group("pg", checker="url", checker_target="shop")
        mq.create_producer_group("plain")


@pytest.mark.parametrize("how", CHANGES)
def test_the_client_logs_the_warning(how: str, dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    with mqpg.connect(dsn) as mq, caplog.at_level(logging.WARNING, "mqpg"):
        CHANGES[how](mq)
    (line,) = [one.getMessage() for one in caplog.records if one.name == "mqpg"]
    assert UNKNOWN in line
    assert "wait until a compensator" in line  # the hint


@pytest.mark.parametrize("how", COMMANDS)
def test_commands_print_it(how: str, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    status, _, err = run("group", *COMMANDS[how])
    assert status == 0
    assert UNKNOWN in err + caplog.text


@pytest.mark.parametrize("command", ["status", "doctor", "why"])
def test_it_is_said_without_a_half_message(command: str, run: Run) -> None:
    out = run(command)[1]
    assert UNKNOWN in out
    assert "pg" in out
    assert "MQPG_LEDGER_SHOP" in out


def test_a_ledger_that_cannot_be_reached(run: Run, processes: Processes, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none/ledger.db"
    processes.start("worker", "compensator", "--heartbeat", "0.1", MQPG_LEDGER_SHOP=url)
    eventually(lambda: "no verdict from the ledger shop" in run("status")[1], timeout=60)


def test_a_ledger_that_answers(run: Run, processes: Processes, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    mqpg.Ledger(url).create()
    processes.start("worker", "compensator", "--heartbeat", "0.1", MQPG_LEDGER_SHOP=url)
    eventually(lambda: "shop" not in run("status")[1].split("appender")[-1], timeout=60)


def test_overdue_means_the_same_everywhere(run: Run, dsn: str) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.create_producer_group("hasty", check_after=0.01)
        mq.prepare("t", {}, producer_group="hasty")
        mq.append()
    eventually(lambda: "overdue for" in run("half", "list", "--json")[1])
    eventually(lambda: "hasty" in run("status")[1])
