"""The reference describes every public function, view and error."""

import re
from pathlib import Path

from mqpg import errors
from tools import site

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## (\w+)\n\n(?=\S)", re.M)


def test_every_function_is_described() -> None:
    defined = {path.stem for path in (ROOT / "sql" / "functions").rglob("[a-z]*.sql")}
    described = SECTION.findall(site.functions_page(ROOT / "sql" / "functions"))
    assert len(defined) > 40
    assert sorted(described) == sorted(defined)


def test_every_view_is_described() -> None:
    views = {path.stem for path in (ROOT / "sql" / "views").glob("*.sql") if not path.stem.startswith("audit_")}
    page = site.views_page(ROOT / "sql" / "views")
    assert set(SECTION.findall(page)) == views
    assert "| `topic` |" in page
    audit = site.audit_views_page(ROOT / "sql" / "audit_views")
    assert set(SECTION.findall(audit)) == {path.stem for path in (ROOT / "sql" / "audit_views").glob("*.sql")}
    assert [line for line in audit.splitlines() if line.endswith("|  |")] == []  # a column without a meaning


def test_every_error() -> None:
    page = site.python_page()
    classes = [getattr(errors, name) for name in errors.__all__ if name[0].isupper()]
    raised = {found.sqlstate: found.__name__ for found in classes if found.sqlstate}
    assert len(raised) > 20
    for sqlstate, name in raised.items():
        assert re.search(rf"^\| {sqlstate} \| `{name}` \| \w", page, re.M), (sqlstate, name)
