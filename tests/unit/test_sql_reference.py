"""docs/sql.md lists every public function with every argument, type and default, and every view and error."""

from __future__ import annotations

import re
from pathlib import Path

from mqpg import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text()

_FUNCTION = re.compile(r"^create (?:or replace )?function mqpg\.([a-z]\w*)\s*\((.*?)\)\s*returns", re.M | re.S)
_ENTRY = re.compile(r"\*\*`([a-z]\w*)\((.*?)\)\s→", re.S)
_BODY = re.compile(r"^(payloads?) (?:text|json|jsonb)(?: ?\[\])?(?=,|$)")


def arguments(text: str) -> str:
    """As the page writes them; `payload` is each of its three types."""
    one_line = " ".join(text.split()).replace(" []", "[]").replace(" default ", " = ")
    return ", ".join(_BODY.sub(r"\1", argument.strip()) for argument in one_line.split(","))


def test_every_function_with_every_argument() -> None:
    defined = {
        f"{name}({arguments(given)})"
        for path in (ROOT / "sql" / "functions").rglob("[a-z]*.sql")
        for name, given in _FUNCTION.findall(path.read_text())
    }
    listed = {f"{name}({arguments(given)})" for name, given in _ENTRY.findall(PAGE)}
    assert len(defined) > 40
    assert listed == defined


def test_every_view() -> None:
    views = {re.sub("^audit_.*", "audit_*", path.stem) for path in (ROOT / "sql" / "views").glob("*.sql")}
    assert views == set(re.findall(r"^\| `([\w*]+)` \|", PAGE.partition("| view |")[2].partition("## Errors")[0], re.M))


def test_every_error() -> None:
    table = PAGE.partition("## Errors")[2]
    classes = [getattr(errors, name) for name in errors.__all__ if name[0].isupper()]
    raised = {found.sqlstate: found.__name__ for found in classes if found.sqlstate}
    assert len(raised) > 20
    for sqlstate, name in raised.items():
        assert re.search(rf"{sqlstate}.*`{name}`", table), (sqlstate, name)
