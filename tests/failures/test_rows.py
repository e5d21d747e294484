"""The tables of failures and the tests agree: each row has one test, and each test has one row."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
TABLES = [FOLDER / "README.md", FOLDER.parents[1] / "docs" / "testing" / "failures.md"]
_ID = re.compile(r"test_(1_1_[CEF]\d+|1_[2345]_\d+|4_\d+|bad_\d+)_\w+")
_ROW = re.compile(
    r"\| (1\.1 [CEF]\d+|1\.[2345]\.\d+|4\.\d+|bad \d+) \|.*\| \[?`(test_\w+)`(?:\]\((test_\w+\.py)\))? \|"
)
# How a test produces its failure, by the names that it uses. The first that applies counts; the order and the numbers
# are those of the table at the top of docs/testing/failures.md.
MEANS = (
    {"killed", "SIGKILL", "destroy_primary"},
    {"crash", "immediate", "losing_the_unflushed"},
    {"proxy", "through_proxy", "shop_through_proxy", "two_brokers"},
    {"shop_away", "jumped", "full_disk", "expire"},
    {"Thread", "ThreadPoolExecutor", "background", "broker.session", "engine.connect", "psycopg.connect"},
    {"refused", "raises"},
)
README = FOLDER.parents[1] / "README.md"
CHANGELOG = FOLDER.parents[1] / "CHANGELOG.md"


def named() -> dict[str, tuple[str, str]]:
    """Return id -> (test, file) for every test in this folder, apart from those of this file."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if path.name == Path(__file__).name or not isinstance(node, ast.FunctionDef):
                continue
            if not node.name.startswith("test_"):
                continue
            match = _ID.fullmatch(node.name)
            assert match is not None, f"{path.name}: {node.name} has no row's id in its name"
            assert match[1] not in found, f"two tests for row {match[1]}"
            found[match[1]] = (node.name, path.name)
    return found


def rows(table: Path) -> list[tuple[str, str, str | None]]:
    """Return (id, test, file) for each row."""
    lines = [line for line in table.read_text().splitlines() if line.startswith("| ") and "`test_" in line]
    matches = [_ROW.fullmatch(line) for line in lines]
    assert None not in matches, lines[matches.index(None)]
    return [(re.sub(r"[. ]", "_", m[1]), m[2], m[3]) for m in matches if m is not None]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_row_has_exactly_one_test(table: Path) -> None:
    written, made = rows(table), named()
    assert [id for id, n in Counter(id for id, _, _ in written).items() if n > 1] == []
    assert {id: test for id, test, _ in written} == {id: test for id, (test, _) in made.items()}
    for id, _, file in written:
        assert file in (None, made[id][1])


def test_the_numbers_of_a_section_have_no_gap() -> None:
    sections: dict[str, list[int]] = {}
    for id in named():
        section, number = re.fullmatch(r"(.*?_?[CEF]?)(\d+)", id).groups()  # type: ignore[union-attr]
        sections.setdefault(section, []).append(int(number))
    counts = {section: len(numbers) for section, numbers in sections.items()}
    assert {section: sorted(numbers) for section, numbers in sections.items()} == {
        section: list(range(1, count + 1)) for section, count in counts.items()
    }
    assert counts["1_1_E"] == 14
    assert counts["1_1_F"] == 5
    assert counts["4_"] == 23


def words(function: ast.FunctionDef, helpers: dict[str, ast.FunctionDef], seen: frozenset[str]) -> Iterator[str]:
    """Names and strings in a function, and in the functions of its file that it uses."""
    for node in ast.walk(function):
        word = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "value", None)
        if not isinstance(word, str):
            continue
        yield word
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", None) or getattr(node.value, "id", None)
            yield f"{owner}.{word}"
        if word in helpers and word not in seen:
            yield from words(helpers[word], helpers, seen | {word})


def counted() -> list[int]:
    """The number of rows for each of MEANS, and for none of them."""
    counts = [0] * (len(MEANS) + 1)
    for path in sorted(FOLDER.glob("test_*.py")):
        functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        helpers = {name: node for name, node in functions.items() if not name.startswith("test_")}
        for name, node in functions.items():
            if _ID.fullmatch(name):
                used = set(words(node, helpers, frozenset()))
                counts[next((i for i, means in enumerate(MEANS) if means & used), len(MEANS))] += 1
    return counts


def test_the_page_says_how_many_rows_are_crashes() -> None:
    page, counts = TABLES[1].read_text(), counted()
    table = page.partition("| how the test produces the failure | rows |\n|---|---|\n")[2].partition("\n\n")[0]
    assert [int(line.split("|")[-2]) for line in table.splitlines()] == counts
    assert f"There are {sum(counts)} rows." in " ".join(page.split())


def test_the_readme_and_the_change_log_have_the_same_numbers() -> None:
    killed, crashed, cut, world, raced, *_ = counts = counted()
    readme, changes = (" ".join(path.read_text().split()) for path in (README, CHANGELOG))
    assert f"[{sum(counts)} failures](docs/testing/failures.md) are each a test: {killed + crashed} kill a" in readme
    assert (
        f" {cut} cut a connection, {raced} let connections meet, {world} break a clock, a disk or a database" in readme
    )
    assert f"The failure tables as tests: {sum(counts)} named failures" in changes


def test_nothing_here_is_left_out() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("skip", "skipif", "xfail", "importorskip"), f"{path.name}:{node.lineno}"
