"""The numbers that the SQL functions repeat are listed, with a name, in sql/numbers.md."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "sql"
SMALLEST = 512  # smaller numbers explain themselves where they are used
LISTED = re.compile(r"^\| (\d+) \| ([A-Z][A-Z0-9_]*) \| \S", re.MULTILINE)
LOCK_CLASS = re.compile(r"\b18361508\d\d\b")


def listed() -> dict[str, str]:
    """Number to name."""
    found = LISTED.findall((SQL / "numbers.md").read_text("utf-8"))
    numbers = dict(found)
    assert len(numbers) == len(found) == len(set(numbers.values())), "a number or a name is listed twice"
    return numbers


def used(text: str) -> set[str]:
    """The integers in SQL from SMALLEST on, and the shifts; comments and strings left out."""
    code = re.sub(r"'(?:[^']|'')*'", "''", re.sub(r"--[^\n]*", "", text))
    large = {number for number in re.findall(r"(?<![\w.])\d+\b", code) if int(number) >= SMALLEST}
    return large | set(re.findall(r"(?:<<|>>) *(\d+)", code))


def in_functions() -> dict[str, set[str]]:
    """Number to the function files that use it."""
    found: dict[str, set[str]] = {}
    for path in (SQL / "functions").rglob("*.sql"):
        for number in used(path.read_text("utf-8")):
            found.setdefault(number, set()).add(path.relative_to(SQL).as_posix())
    return found


def test_a_number_in_code_is_seen_and_one_in_a_comment_or_a_string_is_not() -> None:
    assert used("select 1025, a >> 11 -- 2000\n, 'x 3000', b4000, 0.5000, 7") == {"1025", "11"}


def test_every_number_is_listed() -> None:
    numbers = listed()
    assert {number: files for number, files in in_functions().items() if number not in numbers} == {}


def test_every_listed_number_is_used() -> None:
    everywhere = "".join(
        path.read_text("utf-8") for folder in ("mqpg", "workers") for path in (ROOT / folder).rglob("*.py")
    )
    python = set(LOCK_CLASS.findall(everywhere))
    assert set(listed()) == set(in_functions()) | python
