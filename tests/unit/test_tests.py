"""No test module imports another one: what tests share is in tests/support (or tests/fixtures)."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
SHARED = {"support", "fixtures"}


def imported(path: Path) -> Iterator[str]:
    """Full names of the modules of `tests` that a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = ".".join(path.relative_to(ROOT).parts[: -node.level or None]) if node.level else ""
            module = ".".join(filter(None, (folder, node.module)))
            # an imported name may be a module
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] == "tests")


def wrong(path: Path) -> list[str]:
    """The imports of one file that the rule forbids."""
    own = path.relative_to(ROOT / "tests").parts[0]
    found = []
    for name in imported(path):
        parts = name.split(".")[1:]
        to_a_test = any(part.startswith("test_") or part == "conftest" for part in parts)
        elsewhere = bool(parts) and parts[0] not in SHARED and parts[0] != own and (ROOT / "tests" / parts[0]).is_dir()
        if to_a_test or elsewhere:
            found.append(name)
    return found


def test_no_test_imports_a_test_or_a_folder_of_other_tests() -> None:
    found = {str(path.relative_to(ROOT)): wrong(path) for path in FILES}
    assert len(found) > 200
    assert {path: names for path, names in found.items() if names} == {}
