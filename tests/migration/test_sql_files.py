"""The SQL files: built, listed, parsed; one object per file named after it."""

import re
from importlib.metadata import PathDistribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import pglast
import psycopg
import pytest

from mqpg.errors import ConfigurationError
from mqpg.schema.assemble import assemble, described, manifest
from mqpg.schema.source import Source, packaged

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "sql"
OBJECTS = sorted(path.relative_to(SQL).as_posix() for path in (SQL / "functions").rglob("*.sql"))


def test_the_whole_schema_is_what_the_files_give() -> None:
    text = packaged().whole
    first, _, rest = assemble(SQL).partition("/* mqpg: bundled PGMQ SQL */")
    assert text.startswith(first)
    assert text.endswith(rest)
    assert all((SQL / path).read_text("utf-8").strip() in text for path in manifest(SQL) if path != "pgmq.sql")


def test_an_editable_pgmq_is_found_and_a_missing_one_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PathDistribution, "locate_file", lambda self, path: tmp_path / path)
    assert Source(files("mqpg.sql")).whole == packaged().whole
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="the package pgmq with its SQL is missing: pip install pgmq"):
        _ = Source(files("mqpg.sql")).whole


def test_the_code_is_every_function_view_and_trigger() -> None:
    code = {(item.kind, item.schema, item.name) for item in packaged().code}
    folders = {
        "functions": ("function", "mqpg"),
        "views": ("view", "mqpg"),
        "audit_views": ("view", "mqpg_audit"),
        "triggers": ("trigger", "mqpg"),
    }
    paths = [Path(path) for path in manifest(SQL)]
    assert code == {(*folders[path.parts[0]], path.stem) for path in paths if path.parts[0] in folders}
    assert all("create or replace" in item.definition for item in packaged().code)
    tables = "".join((SQL / path).read_text("utf-8") for path in manifest(SQL) if path.startswith("tables/"))
    assert not re.search(r"^create (function|view|trigger) ", tables, re.M)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a.sql\nb.sql # twice\na.sql\n", r"names these twice: a\.sql$"),
        ("# nothing\na.sql\nb.sql\nc.sql\n", r"files that do not exist: c\.sql$"),
        ("a.sql\n", r"does not name: b\.sql$"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("select 1;\n")
    (tmp_path / "manifest.txt").write_text(lines)
    with pytest.raises(ValueError, match=message):
        assemble(tmp_path)


def test_a_function_file_holds_its_function() -> None:
    """And its header, from which the assembled schema takes the COMMENT ON each overload."""
    for path in OBJECTS:
        text = described((SQL / path).read_text(encoding="utf-8"))
        assert text.startswith("--"), f"{path} has no header comment: what, locks taken, cost"
        nodes: list[Any] = [statement.stmt for statement in pglast.parse_sql(text)]
        made = [
            node.funcname[-1].sval
            for node in nodes
            if isinstance(node, pglast.ast.CreateFunctionStmt) and node.funcname
        ]
        commented = [node for node in nodes if isinstance(node, pglast.ast.CommentStmt)]
        assert set(made) == {Path(path).stem}
        assert len(commented) == len(made), path


def test_hot_tables_are_only_inserted_into() -> None:
    """But for one function: after a restore into another cluster adopt() rewrites transaction ids, with all at rest."""
    hot = "commit_log|op_log|consume_queue|delayed|tick|half_tick|cursor|check_log|dedup"
    write = re.compile(rf"\b(update|delete from|merge into)\s+(only\s+)?mqpg\.({hot})\b", re.IGNORECASE)
    found = {
        path.relative_to(SQL).as_posix(): len(write.findall(path.read_text("utf-8"))) for path in SQL.rglob("*.sql")
    }
    writes = {path: count for path, count in found.items() if count}
    assert set(writes) == {"functions/adopt/_renew_xids.sql"}
    assert len(write.findall(packaged().whole)) == sum(writes.values())


def code(path: str) -> str:
    """A file without its comments."""
    return re.sub(r"--[^\n]*", "", (SQL / path).read_text("utf-8"))


def test_no_plain_string_has_a_backslash() -> None:
    """With standard_conforming_strings = off a plain string reads it as an escape. In E'…' it always is one."""
    paths = [path for path in manifest(SQL) if path.startswith(("functions", "views", "audit_views", "triggers"))]
    assert [path for path in paths if "\\" in re.sub(r"\bE'(?:[^'\\]|''|\\.)*'", "", code(path))] == []


def test_the_bodies_of_sql_functions_are_valid(dsn: str) -> None:
    """They are created in the order of their names, so PostgreSQL does not look into them then."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "select pg_catalog.fmgr_sql_validator(p.oid) from pg_proc p inner join pg_language l on l.oid = p.prolang "
            "where p.pronamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace) and l.lanname = 'sql'"
        )


def test_pgmq_is_called_only_where_strings_mean_what_it_expects() -> None:
    """Its functions have plain strings with backslashes, which fail where a role has switched the setting off."""
    calling = [path for path in OBJECTS if re.search(r"\bpgmq\.\w+ *\(", code(path))]
    assert calling
    assert [path for path in calling if "set standard_conforming_strings = on" not in code(path)] == []
