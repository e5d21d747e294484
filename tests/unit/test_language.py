"""The style of CONTRIBUTING in what people read: no banned phrase, and lines of at most 100 columns.

`python -m tests.unit.test_language PATTERN…` lists the findings in other files.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLEAN = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*",
    "mqpg/**/*.py",
    "proof/*",
    "spark/**/*",
    "sql/**/*",
    "tools/*",
    "workers/**/*",
)

WIDTH = 100
BANNED = (
    "what of",
    "is told",
    "need it not",
    "needs it not",
    "to speak of",
    "for who",
    "anew",
    "goes on",
    "put off",
    "some day",
    "be it that",
)

# A phrase may be broken at the end of a comment's line.
_GAP = r"(?:\s|#|--)+"
_BANNED = re.compile(rf"\b(?:{'|'.join(BANNED)})\b".replace(" ", _GAP), re.IGNORECASE)
# Written for tools, or by them.
_PRAGMA = re.compile(r"#\s*(?:type: ignore|noqa|fmt: |pragma: |Generated from )|--\s*noqa")
_FENCE = re.compile(r"\s*(?:```|~~~)")


def findings(path: Path) -> list[str]:
    """What is wrong in one file, as `file:line: what`."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    where = path.relative_to(ROOT)
    found = []
    for match in _BANNED.finditer(text):
        found.append((text.count("\n", 0, match.start()) + 1, f"“{' '.join(match[0].split())}”"))
    for number in sorted(_PROSE[path.suffix](text)):
        line = lines[number - 1]
        if len(line) > WIDTH and "://" not in line and not _PRAGMA.search(line):
            found.append((number, f"{len(line)} columns"))
    return [f"{where}:{number}: {what}" for number, what in sorted(found)]


def _python(text: str) -> Iterator[int]:
    """The lines of comments and docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _sql(text: str) -> Iterator[int]:
    """The lines that are comments as a whole, or end in one, and texts of `comment on`."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(r"(?:^|\s)--\s", line) or line.lstrip().startswith("is '"):
            yield number


def _markdown(text: str) -> Iterator[int]:
    """The lines outside code blocks and tables."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(("|", "[!")):
            yield number


_PROSE = {".py": _python, ".sql": _sql, ".md": _markdown}


def files(patterns: tuple[str, ...]) -> list[Path]:
    """The files that the patterns name."""
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix in _PROSE})


@pytest.mark.parametrize("pattern", CLEAN)
def test_language(pattern: str) -> None:
    paths = files((pattern,))
    assert paths, f"{pattern} names no file"
    found = [finding for path in paths for finding in findings(path)]
    assert not found, "\n" + "\n".join(found)


def test_findings_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    long = "word " * 21
    samples = {
        "one.py": f'"""A line.\n\n{long}\n"""\nx = "{long}"  # {"x" * 9}\ny = "{long}"\n# Put\n# off\n',
        "two.sql": f"-- {long}\nselect '{long}';\n-- goes on\n",
        "three.md": f"{long}\n\n| {long} |\n\n```\n{long}\n```\n\nhttps://example.org/{'x' * 90}\n\nput\noff\n",
    }
    found = []
    for name, text in samples.items():
        (tmp_path / name).write_text(text)
        found += findings(tmp_path / name)
    assert [one.rpartition(":")[0] for one in found] == [
        "one.py:3", "one.py:5", "one.py:7", "two.sql:1", "two.sql:3", "three.md:1", "three.md:11"
    ]  # fmt: skip


if __name__ == "__main__":
    sys.stdout.writelines(f"{finding}\n" for path in files(tuple(sys.argv[1:])) for finding in findings(path))
