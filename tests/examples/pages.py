"""Runs the snippets of a documentation page from top to bottom: python blocks in one namespace, sql blocks as psql would.

`# prints: x` in Python and `-- returns x` in SQL say what must come of it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["run_page", "snippets"]

_BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTS = re.compile(r"# prints: (.*)$", re.MULTILINE)
# One statement: up to a semicolon at the end of a line (behind it what it returns), or \gset.
_STATEMENT = re.compile(r"(.*?)(?:;[ ]*(?:-- returns ([^\n]*))?$|\\gset$)", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r":'(\w+)'")


def snippets(page: Path) -> Iterator[tuple[str, str]]:
    """(language, code), in order."""
    return (match.groups() for match in _BLOCK.finditer(page.read_text()))


def run_page(page: Path, conn: psycopg.Connection[Any]) -> None:
    """`conn` is in autocommit mode."""
    names: dict[str, Any] = {"__name__": "page"}
    for language, code in snippets(page):
        if language == "python":
            _run_python(code, page, names)
        else:
            _run_sql(code, conn)


def _run_python(code: str, page: Path, names: dict[str, Any]) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, page.name, "exec"), names)
    assert said.getvalue().splitlines() == _PRINTS.findall(code)


def _run_sql(code: str, conn: psycopg.Connection[Any]) -> None:
    variables: dict[str, Any] = {}
    body = "\n".join(line for line in code.splitlines() if not line.startswith("--"))
    rest = _STATEMENT.sub("", body).strip()
    assert not rest, f"no statement: {rest}"
    for match in _split(body):
        statement = _filled(match[1], variables)
        cursor = conn.execute(statement.encode())
        if cursor.description is None:
            continue
        row = cursor.fetchone()
        if match[0].endswith("\\gset"):
            assert row is not None, statement
            variables |= {column.name: value for column, value in zip(cursor.description, row, strict=True)}
        elif match[2] is not None:
            assert row is not None, statement
            assert str(row[0]) == match[2], statement


def _filled(statement: str, variables: dict[str, Any]) -> str:
    return _VARIABLE.sub(lambda name: "'" + str(variables[name[1]]).replace("'", "''") + "'", statement)


def _split(body: str) -> Iterator[re.Match[str]]:
    return (match for match in _STATEMENT.finditer(body) if match[1].strip())
