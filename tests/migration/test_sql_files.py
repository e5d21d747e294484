"""The SQL files: built, listed, parsed; one object per file named after it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pglast
import pytest

from mqpg import migrate
from mqpg._first_migration import FIRST, assemble, manifest

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "sql"
OBJECTS = sorted(path.relative_to(SQL).as_posix() for path in (SQL / "functions").rglob("*.sql"))


def test_the_manifest_lists_every_file() -> None:
    done = subprocess.run(
        [sys.executable, "tools/check_manifest.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_first_migration_is_what_the_files_give() -> None:
    """A file of that name in the checkout would be installed instead, however old it is."""
    assert not (SQL / FIRST).exists()
    text = migrate._text("0001")
    assert text == assemble(SQL)
    assert all((SQL / path).read_text("utf-8").strip() in text for path in manifest(SQL))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a.sql\nb.sql # twice\na.sql\n", r"names these twice: a\.sql$"),
        ("# nothing\na.sql\nc.sql\n", r"files that do not exist: c\.sql$"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("select 1;\n")
    (tmp_path / "manifest.txt").write_text(lines)
    with pytest.raises(ValueError, match=message):
        assemble(tmp_path)


def test_each_sql_migration_has_its_revision() -> None:
    folder = ROOT / "mqpg" / "migrations" / "versions"
    modules = sorted(path for path in folder.glob("[0-9]*.py"))
    assert tuple(path.name[:4] for path in modules) == migrate.revisions()
    earlier = None
    for path in modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert (module.revision, module.down_revision) == (path.name[:4], earlier)
        earlier = module.revision


@pytest.mark.parametrize("path", OBJECTS)
def test_a_function_file_holds_its_function_and_comments(path: str) -> None:
    text = (SQL / path).read_text(encoding="utf-8")
    assert text.startswith("--"), "a header comment: what, locks taken, cost"
    made, commented = [], []
    for statement in pglast.parse_sql(text):
        node = statement.stmt
        if isinstance(node, pglast.ast.CreateFunctionStmt):
            made.append(node.funcname[-1].sval)
        elif isinstance(node, pglast.ast.CommentStmt):
            commented.append(node.object.objname[-1].sval)
    assert set(made) == {Path(path).stem}
    assert len(commented) == len(made)


def test_hot_tables_are_only_inserted_into() -> None:
    """But for one function: after a restore into another cluster adopt() rewrites transaction ids, with all at rest."""
    hot = "commit_log|op_log|consume_queue|delayed|tick|half_tick|cursor|check_log|dedup"
    write = re.compile(rf"\b(update|delete from|merge into)\s+(only\s+)?mqpg\.({hot})\b", re.IGNORECASE)
    found = {
        path.relative_to(SQL).as_posix(): len(write.findall(path.read_text("utf-8"))) for path in SQL.rglob("*.sql")
    }
    writes = {path: count for path, count in found.items() if count}
    assert set(writes) == {"functions/adopt/_renew_xids.sql"}
    assert len(write.findall(migrate._text("0001"))) == sum(writes.values())


@pytest.mark.parametrize(
    "path", [path for path in manifest(SQL) if path.startswith(("functions", "views", "triggers"))]
)
def test_no_plain_string_has_a_backslash(path: str) -> None:
    """With standard_conforming_strings = off a plain string reads it as an escape. In E'…' it always is one."""
    code = re.sub(r"--[^\n]*", "", (SQL / path).read_text("utf-8"))
    assert "\\" not in re.sub(r"\bE'(?:[^'\\]|''|\\.)*'", "", code)


@pytest.mark.parametrize("path", OBJECTS)
def test_pgmq_is_called_only_where_strings_mean_what_it_expects(path: str) -> None:
    """Its functions have plain strings with backslashes, which fail where a role has switched the setting off."""
    code = re.sub(r"--[^\n]*", "", (SQL / path).read_text("utf-8"))
    if re.search(r"\bpgmq\.\w+ *\(", code):
        assert "set standard_conforming_strings = on" in code
