"""Build sql/migrations/0001_initial.sql from the object files that sql/manifest.txt lists in install order.

`python tools/build_sql.py` writes it; `--check` only compares and exits with 1 if it is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["build", "main", "manifest", "unlisted"]

SQL = Path(__file__).resolve().parent.parent / "sql"
TARGET = "migrations/0001_initial.sql"
HEADER = "-- Built by tools/build_sql.py from the files named below: edit those, not this one.\n"


def manifest(sql: Path = SQL) -> list[str]:
    """Paths below sql/ in install order; `#` begins a comment."""
    lines = (sql / "manifest.txt").read_text(encoding="utf-8").splitlines()
    paths = [path for line in lines if (path := line.split("#", 1)[0].strip())]
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    if doubled:
        raise SystemExit(f"sql/manifest.txt names these twice: {', '.join(doubled)}")
    missing = [path for path in paths if not (sql / path).is_file()]
    if missing:
        raise SystemExit(f"sql/manifest.txt names files that do not exist: {', '.join(missing)}")
    return paths


def unlisted(sql: Path = SQL) -> list[str]:
    """Object files that the manifest forgot."""
    there = {path.relative_to(sql).as_posix() for path in sql.rglob("*.sql")}
    return sorted(path for path in there - set(manifest(sql)) if not path.startswith("migrations/"))


def build(sql: Path = SQL) -> str:
    """The text of the first migration."""
    parts = [f"\n-- {path}\n{(sql / path).read_text(encoding='utf-8').strip()}\n" for path in manifest(sql)]
    return HEADER + "".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if it is out of date")
    options = parser.parse_args(argv)
    forgotten = unlisted()
    if forgotten:
        print(f"sql/manifest.txt does not name: {', '.join(forgotten)}", file=sys.stderr)
        if options.check:
            return 1
    target, text = SQL / TARGET, build()
    if target.is_file() and target.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print(f"sql/{TARGET} is out of date: run python tools/build_sql.py", file=sys.stderr)
        return 1
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"sql/{TARGET} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
