"""Count lines and words by part, beside the budgets: `make size`.

    python tools/size.py            print the table, and modules and functions that are too long
    python tools/size.py --check    the same; exit 1 if something is over its budget

A line counts if git tracks its file. What other tools generate (`mqpg/_sync`) or other people wrote
(scripts in `mqpg/web/static`) does not count.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

__all__ = ["main", "part_of"]

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = {"queue": 38_000, "proof": 14_000, "lab": 9_000, "tests": 55_000, "docs (words)": 60_000}
MODULE_LINES, FUNCTION_LINES = 450, 60

# The first prefix that fits names the part.
_PARTS = (
    ("mqpg/_sync/", None),
    ("mqpg/web/static/htmx", None),
    ("mqpg/audit/", "proof"),
    ("mqpg/crashtest/", "proof"),
    ("sql/audit_views/", "proof"),
    ("spark/", "proof"),
    ("mqpg/", "queue"),
    ("sql/", "queue"),
    ("workers/", "queue"),
    ("lab/", "lab"),
    ("tests/", "tests"),
    ("conftest.py", "tests"),
    ("docs/", "docs (words)"),
)
_TEXT = {".py", ".sql", ".html", ".css", ".js", ".sh", ".pml", ".csv", ".json", ".md", ".txt"}


def part_of(name: str) -> str | None:
    """Say which part a file belongs to.

    Args:
        name: The file's path from the root of the repository.

    Returns:
        The part. None: it counts nowhere.
    """
    if Path(name).suffix not in _TEXT or (name.startswith("docs/") and not name.endswith(".md")):
        return None
    return next((part for prefix, part in _PARTS if name.startswith(prefix)), None)


def _sizes(names: list[str]) -> dict[str, int]:
    found = dict.fromkeys(BUDGETS, 0)
    for name in names:
        if part := part_of(name):
            text = (ROOT / name).read_text(encoding="utf-8")
            found[part] += len(text.split()) if part.startswith("docs") else text.count("\n")
    return found


def _too_long(names: list[str]) -> list[str]:
    found = []
    for name in names:
        if not name.endswith(".py") or part_of(name) not in ("queue", "proof", "lab"):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        if (lines := text.count("\n")) > MODULE_LINES:
            found.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (body := _body(node)) > FUNCTION_LINES:
                found.append(f"{name}: {node.name} has {body} lines")
    return found


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's statements, without its arguments and its docstring."""
    statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def main() -> int:
    """Print the sizes, and return the exit status: 1 with --check if something is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if something is over its budget")
    check = parser.parse_args().check
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    sizes, long = _sizes(names), _too_long(names)
    print(f"{'part':<14}{'size':>9}{'budget':>9}")
    for part, size in sizes.items():
        print(f"{part:<14}{size:>9,}{BUDGETS[part]:>9,}{'  over' if size > BUDGETS[part] else ''}")
    print(*long, sep="\n")
    over = long or any(size > BUDGETS[part] for part, size in sizes.items())
    return 1 if check and over else 0


if __name__ == "__main__":
    sys.exit(main())
