"""`mqpg audit` as users run it: exit statuses, JSON, the page, an error in one line."""

import json
from pathlib import Path

import pytest

from tests.audit.commands import as_role, run
from tests.audit.story import Story, Trio


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.audits]), "sql"])
def test_valid_unknown_and_invalid(engine: str, trio: Trio, story: Story) -> None:
    both = (
        "--dsn",
        trio.broker,
        "--ledger",
        f"shop={trio.ledger}",
        "--applied",
        f"board={trio.consumer}",
        "--engine",
        engine,
    )
    # Group mail has read no message.
    status, out, err = run(*both, "--json")
    assert status == 0, err
    report = json.loads(out)
    assert (report["verdict"], report["run"]["engine"]) == ("valid", engine)
    assert report["anomalies"]["total"] == 0
    assert set(report["anomalies"]["by_kind"]) >= {"lost", "duplicated", "phantom", "early", "undecided", "gap"}
    assert [read["role"] for read in report["run"]["snapshots"]] == ["positions", "consumer", "broker", "ledger"]
    assert report["relations"][0]["ids_equal"] is True
    status, out, err = run(*both, "--drained")
    assert status == 2, err
    assert "UNKNOWN" in out
    assert "group mail is 66 messages behind" in out
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    status, out, err = run(*both)
    assert status == 1, err
    assert "INVALID" in out
    assert "1 lost" in out


def test_without_java_one_line_names_the_other_engine(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    status, out, err = run("--dsn", trio.broker, "--engine", "spark")
    assert (status, out) == (2, "")
    line = err.splitlines()[-1]
    assert "needs Java" in line
    assert "--engine sql" in line
    assert run("--dsn", trio.broker)[0] == 0


@pytest.mark.parametrize("engine", ["spark", "sql"])
def test_server_that_does_not_answer(engine: str) -> None:
    status, out, err = run("--dsn", "postgresql://nobody:secret@127.0.0.1:1/none", "--engine", engine)
    assert (status, out) == (3, "")
    warning, error = err.splitlines()
    assert "PGPASSFILE" in warning
    assert error.startswith("mqpg: ")
    assert "secret" not in err


@pytest.mark.parametrize("engine", ["spark", "sql"])
def test_ledger_that_does_not_answer(engine: str, trio: Trio) -> None:
    absent = "shop=postgresql://nobody@127.0.0.1:1/none"
    status, _, err = run("--dsn", trio.broker, "--ledger", absent, "--engine", engine)
    assert status == 3
    assert err.startswith("mqpg: ")


@pytest.mark.parametrize(("engine", "option"), [("spark", "--ledger=shop"), ("sql", "--applied=board")])
def test_sqlite_file_that_does_not_exist(engine: str, trio: Trio, tmp_path: Path, option: str) -> None:
    status, out, err = run("--dsn", trio.broker, f"{option}=sqlite:///{tmp_path}/none.db", "--engine", engine)
    assert (status, out) == (3, "")
    assert err.splitlines()[-1].endswith("there is no such file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ["spark", "sql"])
def test_database_without_mqpg(engine: str, empty_dsn: str) -> None:
    status, _, err = run("--dsn", empty_dsn, "--engine", engine)
    assert status == 3
    assert "mqpg migrate" in err


@pytest.mark.parametrize("pair", ["shop", "shop=", "=postgresql://h/d", "postgresql://h/d?a=b"])
def test_malformed_pair_is_a_usage_error(pair: str) -> None:
    status, _, err = run("--ledger", pair)
    assert status == 2
    assert "GROUP=URL" in err


@pytest.mark.parametrize("engine", ["spark", "sql"])
def test_role_that_may_not_audit(role: str, engine: str, trio: Trio) -> None:
    found = run("--engine", engine, MQPG_DATABASE_URL=as_role(trio.broker, role))
    assert found == (2, "", "mqpg: permission denied for schema mqpg\n")


@pytest.mark.parametrize("engine", ["spark", "sql"])
def test_schema_of_another_release(engine: str, trio: Trio, story: Story) -> None:
    story.broker.execute("update mqpg.installation set release = '9.9.9'")
    status, out, err = run("--engine", engine, MQPG_DATABASE_URL=trio.broker)
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("mqpg: the schema of this database is of mqpg 9.9.9")


def test_jar_that_is_not_there(trio: Trio) -> None:
    status, out, err = run("--engine", "spark", MQPG_DATABASE_URL=trio.broker, MQPG_JDBC_JAR="/nowhere/postgresql.jar")
    assert (status, out, err) == (2, "", "mqpg: MQPG_JDBC_JAR names no file: /nowhere/postgresql.jar\n")
