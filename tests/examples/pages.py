"""Runs the snippets of a documentation page from top to bottom, as a reader would.

`run_page` runs python blocks in one namespace and sql blocks as psql would; `# prints: x` in Python and
`-- returns x` in SQL say what must come of it. `run_shell_page` runs sh blocks in one bash: a python block whose
first line is `# name.py` is saved under that name, and a text block is what the sh block before it prints, where
… matches anything.
"""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["main", "run_page", "run_shell_page", "saved_files", "snippets"]

_BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_MARK = "@@ next block @@\n"
_PRINTS = re.compile(r"# prints: (.*)$", re.MULTILINE)
# One statement: up to a semicolon at the end of a line (behind it what it returns), or \gset.
_STATEMENT = re.compile(r"(.*?)(?:;[ ]*(?:-- returns ([^\n]*))?$|\\gset$)", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r":'(\w+)'")


def snippets(page: Path) -> Iterator[tuple[str, str]]:
    """(language, code), in order."""
    return ((match[1], match[2]) for match in _BLOCK.finditer(page.read_text()))


def saved_files(page: Path) -> dict[str, str]:
    """The python blocks that a reader saves, by file name."""
    named = ((_FILE.match(code), code) for language, code in snippets(page) if language == "python")
    return {match[1]: code for match, code in named if match}


def run_shell_page(page: Path, folder: Path, *, timeout: float, **environment: str) -> None:
    """Run it in a folder. Every command must succeed, and processes that are left are killed."""
    script, expected = _shell_script(page)
    shell = subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, errors = shell.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert shell.returncode == 0, said + errors
    blocks = said.split(_MARK)[1:]
    for number, text in expected.items():
        pattern = ".*".join(re.escape(part) for part in text.strip().split("…"))
        assert re.fullmatch(pattern, blocks[number].strip(), re.DOTALL), f"{text}is not\n{blocks[number]}{errors}"


def _shell_script(page: Path) -> tuple[str, dict[int, str]]:
    """The page as one script, and what its sh blocks print, by their numbers."""
    script: list[str] = []
    expected: dict[int, str] = {}
    count = 0
    for language, code in _SHELL_BLOCK.findall(page.read_text()):
        if language == "sh":
            script.append(f"printf %s '{_MARK}'\n{code}")
            count += 1
        elif language == "text":
            expected[count - 1] = code
        elif match := _FILE.match(code):
            script.append(f"cat > {match[1]} <<'END OF FILE'\n{code}END OF FILE\n")
    return "".join(script), expected


def run_page(page: Path, conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """`conn` is in autocommit mode. Returns the names of the python blocks."""
    names: dict[str, Any] = {"__name__": "page"}
    for language, code in snippets(page):
        if _FILE.match(code):
            continue  # saved, and run by a test of its own
        if language == "python":
            _run_python(code, page, names)
        else:
            _run_sql(code, conn)
    return names


def main(page: str, dsn: str) -> None:
    """Run a page in a process of its own, in whose folder its files are saved first."""
    for name, code in saved_files(Path(page)).items():
        Path(name).write_text(code)
    sys.path.insert(0, str(Path.cwd()))
    with psycopg.connect(dsn, autocommit=True) as conn:
        run_page(Path(page), conn)


def _run_python(code: str, page: Path, names: dict[str, Any]) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, page.name, "exec", dont_inherit=True), names)
    assert said.getvalue().splitlines() == _PRINTS.findall(code), said.getvalue()


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
