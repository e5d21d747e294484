"""The file between two incremental audits: who may use it, and what a crash leaves."""

import json
import os
from pathlib import Path

import psycopg
import pytest

from mqpg.audit.state import FORMAT, Judged, load_state, save_state
from mqpg.errors import ConfigurationError
from tests.audit.story import Story, Trio
from tests.support.forking import Forked, run_mqpg
from tests.support.waiting import eventually


def _command(trio: Trio, state: Path, *arguments: str) -> list[str]:
    command = ["audit", "--dsn", trio.broker, "--ledger", f"shop={trio.ledger}"]
    return [*command, "--applied", f"board={trio.consumer}", "--engine", "sql", "--state", str(state), *arguments]


def run(trio: Trio, state: Path, *arguments: str) -> tuple[int, str, str]:
    done = run_mqpg(*_command(trio, state, *arguments))
    return done.returncode, done.stdout, done.stderr


def refused(result: tuple[int, str, str], text: str) -> None:
    status, out, err = result
    assert (status, out) == (2, "")
    assert text in err.splitlines()[-1]
    assert "Traceback" not in err


def test_two_runs_and_a_fault(trio: Trio, story: Story, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    status, out, err = run(trio, state, "--json")
    assert status == 0, err
    assert json.loads(out)["run"]["incremental"]["judged_before"] == {}
    status, out, err = run(trio, state)
    assert status == 0, err
    assert "were judged before, and have not changed" in " ".join(out.split())
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    status, out, err = run(trio, state, "--json")
    assert status == 1, err
    assert json.loads(out)["anomalies"]["by_kind"]["lost"] == 1


def test_states_that_cannot_be_used(trio: Trio, story: Story, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert run(trio, state)[0] == 0
    good = json.loads(state.read_text())
    for text, why in (
        ("{", "cannot be read"),
        ("[]", "not a state"),
        (json.dumps({"format": FORMAT}), "not a complete state"),
        (json.dumps(good | {"format": FORMAT + 1}), "knows formats up to"),
        (json.dumps(good | {"broker_id": "other"}), "another broker, other"),
    ):
        state.write_text(text)
        refused(run(trio, state), why)
        assert state.read_text() == text
    refused(run(trio, tmp_path / "none" / "state.json"), "cannot be written")
    refused(run(trio, state, "--engine", "spark"), "--state and --follow need --engine sql")


def test_a_killed_audit_leaves_the_old_state(trio: Trio, story: Story, tmp_path: Path) -> None:
    """The kill hits it while it waits for a lock, in the middle of its reads."""
    state = tmp_path / "state.json"
    assert run(trio, state)[0] == 0
    before = state.read_bytes()
    story.business()
    with psycopg.connect(trio.broker) as blocker:
        blocker.execute("lock table mqpg.commit_log in access exclusive mode")
        process = Forked(_command(trio, state))
        waiting = "select count(*) as n from pg_stat_activity where application_name = 'mqpg audit' and wait_event_type = 'Lock' and datname = current_database()"
        eventually(lambda: story.one(waiting))
        process.kill()
        process.wait()
    assert state.read_bytes() == before
    status, out, err = run(trio, state, "--json")
    assert status == 0, err
    assert json.loads(out)["run"]["incremental"]["judged_again"] is None


def test_a_crash_while_the_state_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state.json"
    save_state(state, Judged("one", [], {}))

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ConfigurationError, match="no space left"):
        save_state(state, Judged("two", [], {}))
    found = load_state(state)
    assert found is not None
    assert found.broker_id == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
