"""`mqpg audit --follow`: a line for each audit, a row in worker_status, no end but a signal."""

import json
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.audit.commands import as_role
from tests.audit.story import Story, Trio
from tests.support.forking import Forked
from tests.support.waiting import eventually


class Follower:
    """A process that follows, and the audits that it has printed."""

    def __init__(self, dsn: str, trio: Trio, *arguments: str) -> None:
        command = ["audit", "--dsn", dsn, "--ledger", f"shop={trio.ledger}", "--applied", f"board={trio.consumer}"]
        command += ["--engine", "sql", "--follow", "--interval", "0.2", *arguments]
        with ExitStack() as files:
            self._out = files.enter_context(tempfile.NamedTemporaryFile("r"))
            self._err = files.enter_context(tempfile.NamedTemporaryFile("r"))
            self._files = files.pop_all()
        with Path(self._out.name).open("wb") as out, Path(self._err.name).open("wb") as err:
            self.process = Forked(command, stdout=out, stderr=err)

    def line(self) -> str:
        """The next line. Empty: the process has ended."""
        text = ""

        def whole() -> bool:
            nonlocal text
            ended = self.process.poll() is not None
            text += self._out.readline()
            return ended or text.endswith("\n")

        eventually(whole, 60)
        return text

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first report that is wanted."""
        while not wanted(found := json.loads(self.line())):
            pass
        return dict(found)

    def end(self, signum: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(signum)
        returned, _, err = self.rest()
        return returned, err

    def rest(self) -> tuple[int, str, str]:
        """Wait for the end: its exit status, what it still prints, and its errors."""
        returned = self.process.wait(60)
        return returned, self._out.read(), self._err.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._files.close()


@pytest.fixture
def follow(trio: Trio, story: Story) -> Iterator[Callable[..., Follower]]:
    """A function that starts to follow `trio`."""
    story.drain("mail", journal=False)
    started: list[Follower] = []

    def start(*arguments: str, dsn: str | None = None) -> Follower:
        started.append(Follower(dsn or trio.broker, trio, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


def status(story: Story) -> dict[str, Any]:
    """The row of the newest audit in worker_status."""
    row = story.broker.execute(
        "select state, alive, detail from mqpg.worker_status where role = 'audit' order by started_at desc limit 1"
    ).fetchone()
    return row or {}


def test_a_fault_shows_while_it_lasts(follow: Callable[..., Follower], story: Story) -> None:
    follower = follow("--json")
    assert follower.until(lambda found: True)["verdict"] == "valid"
    message = story.business()
    story.drain()
    story.drain("mail", journal=False)
    follower.until(lambda found: found["run"]["incremental"]["judged_before"].get("messages", 0) > 0)
    deleted = story.consumer.execute(
        "delete from mqpg_applied where message_id = %s returning *", (message,)
    ).fetchone()
    assert deleted is not None
    assert follower.until(lambda found: found["verdict"] == "invalid")["anomalies"]["by_kind"]["lost"] == 1
    eventually(lambda: status(story)["detail"]["verdict"] == "invalid")
    shown = status(story)
    assert (shown["state"], shown["alive"], shown["detail"]["anomalies"]) == ("active", True, {"lost": 1})
    story.consumer.execute("insert into mqpg_applied values (%s, %s, %s, %s, %s, %s, %s, %s)", tuple(deleted.values()))
    follower.until(lambda found: found["verdict"] == "valid")
    assert follower.end()[0] == 0
    assert status(story)["state"] == "stopped"


def test_an_audit_that_hangs_shows_since_when(follow: Callable[..., Follower], story: Story) -> None:
    """The verdict stays that of the audit before it."""
    follower = follow("--json")
    follower.until(lambda found: True)
    with story.consumer.transaction():
        story.consumer.execute("lock table mqpg_applied")
        # The verdict is written after it is printed.
        shown = eventually(
            lambda: all((detail := status(story)["detail"]).get(k) for k in ("since", "verdict")) and detail, 60
        )
        assert shown["verdict"] == "valid"
        assert story.one("select %s::timestamptz < clock_timestamp()", shown["since"])
    assert follower.until(lambda found: True)["verdict"] == "valid"
    assert follower.end()[0] == 0
    assert "since" not in status(story)["detail"]


def test_the_exit_status_is_that_of_the_last_audit(follow: Callable[..., Follower], story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    follower = follow()
    assert " invalid: 1 lost; " in follower.line()
    assert follower.end(signal.SIGINT)[0] == 1


def test_kill_and_restart(follow: Callable[..., Follower], story: Story, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    first = follow("--json", "--state", str(state))
    first.until(lambda found: True)
    second = follow("--json", "--state", str(state))
    returned, out, err = second.rest()
    assert (returned, out) == (2, "")
    assert "another audit is using" in err
    first.process.kill()
    first.rest()
    third = follow("--json", "--state", str(state))
    found = third.until(lambda found: True)["run"]["incremental"]
    assert found["judged_again"] is None
    assert found["judged_before"]["messages"] > 0
    assert third.end()[0] == 0


def test_it_goes_on_while_a_table_is_away(follow: Callable[..., Follower], story: Story) -> None:
    follower = follow("--json")
    follower.until(lambda found: True)
    story.consumer.execute("alter table mqpg_applied rename to hidden")
    assert "mqpg_applied" in follower.until(lambda found: found["verdict"] == "unknown")["reasons"][0]
    story.consumer.execute("alter table hidden rename to mqpg_applied")
    follower.until(lambda found: found["verdict"] == "valid")
    assert follower.end()[0] == 0


def test_an_auditor_may_report(role: str, follow: Callable[..., Follower], story: Story, trio: Trio) -> None:
    story.broker.execute("select mqpg.grant_auditor(%s)", (role,))
    dsn = as_role(trio.broker, role)
    follower = follow(dsn=dsn)
    assert " valid: " in follower.line()
    returned, err = follower.end()
    assert returned == 0
    assert "worker_status" not in err
    assert status(story)["state"] == "stopped"
    report = """
        select mqpg._heartbeat('audit-x', 'audit', 'host', 1, %s,
            jsonb_build_object('x', (select string_agg(md5(i::text), '') from generate_series(1, %s) i)))
    """
    with psycopg.connect(dsn, autocommit=True) as auditor:
        for state, length, said in (("whatever", 1, "another state"), ("active", 10_000, "64 KiB")):
            with pytest.raises(psycopg.Error, match=said):
                auditor.execute(report, (state, length))


def test_without_the_right_to_report_it_says_so_once(
    follow: Callable[..., Follower], story: Story, tmp_path: Path
) -> None:
    story.broker.execute("alter table mqpg.worker rename to elsewhere")
    follower = follow()
    for _ in range(3):
        assert " valid: " in follower.line()
    returned, err = follower.end()
    assert returned == 0
    assert err.count("worker_status does not show this audit") == 1


def test_a_page_shows_one_audit(follow: Callable[..., Follower], tmp_path: Path) -> None:
    follower = follow("--html", str(tmp_path / "page.html"))
    returned, _, err = follower.rest()
    assert returned == 2
    assert "--follow" in err
