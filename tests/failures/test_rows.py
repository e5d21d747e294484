"""The table of failures and the tests agree: each row has one test, and each test has one row."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "testing" / "failures.md"
README = FOLDER.parents[1] / "README.md"
_ID = re.compile(r"test_(1_1_[CEF]\d+|1_[2345]_\d+|4_\d+|bad_\d+)_\w+")
_ROW = re.compile(r"^\| (1\.1 [CEF]\d+|1\.[2345]\.\d+|4\.\d+|bad \d+) \|", re.MULTILINE)
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


def named() -> dict[str, str]:
    """Return id -> test for every test in this folder, apart from those of this file."""
    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if path.name == Path(__file__).name or not isinstance(node, ast.FunctionDef):
                continue
            if not node.name.startswith("test_"):
                continue
            match = _ID.fullmatch(node.name)
            assert match is not None, f"{path.name}: {node.name} has no row's id in its name"
            assert match[1] not in found, f"two tests for row {match[1]}"
            found[match[1]] = node.name
    return found


def test_each_row_has_exactly_one_test() -> None:
    written = [re.sub(r"[. ]", "_", row) for row in _ROW.findall(PAGE.read_text())]
    assert [id for id, n in Counter(written).items() if n > 1] == []
    assert set(written) == named().keys()


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
    page, counts = PAGE.read_text(), counted()
    table = page.partition("| how the test produces the failure | rows |\n|---|---|\n")[2].partition("\n\n")[0]
    assert [int(line.split("|")[-2]) for line in table.splitlines()] == counts
    assert f"There are {sum(counts)} rows." in " ".join(page.split())


def test_the_readme_has_the_same_number() -> None:
    assert f"[{sum(counted())} failures](docs/testing/failures.md)" in " ".join(README.read_text().split())


def test_nothing_here_is_left_out() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("skip", "skipif", "xfail", "importorskip"), f"{path.name}:{node.lineno}"
