"""What people read has none of the phrases that CONTRIBUTING rules out."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLEAN = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*",
    "mqpg/**/*.py",
    "spark/**/*",
    "sql/**/*",
    "tools/*",
    "workers/**/*",
)
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


def findings(path: Path) -> list[str]:
    """What is wrong in one file, as `file:line: phrase`."""
    text = path.read_text(encoding="utf-8")
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: “{' '.join(match[0].split())}”"
        for match in _BANNED.finditer(text)
    ]


def files(pattern: str) -> list[Path]:
    """The files that a pattern names."""
    return sorted(path for path in ROOT.glob(pattern) if path.suffix in (".md", ".py", ".sql"))


@pytest.mark.parametrize("pattern", CLEAN)
def test_language(pattern: str) -> None:
    paths = files(pattern)
    assert paths, f"{pattern} names no file"
    assert [finding for path in paths for finding in findings(path)] == []


def test_findings_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "one.py").write_text("# Put\n# off\n")
    (tmp_path / "two.sql").write_text("-- it\n-- goes on\n")
    (tmp_path / "three.md").write_text("put\noff, and output of\n")
    assert [finding.partition(" ")[0] for path in files("*") for finding in findings(path)] == [
        "one.py:1:", "three.md:1:", "two.sql:2:"
    ]  # fmt: skip
