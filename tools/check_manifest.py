"""Check that sql/manifest.txt lists every object file of sql/ exactly once.

    python tools/check_manifest.py

The schema is assembled in the order of the manifest, so a file that the manifest omits
would not be installed.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

__all__ = ["main", "unlisted"]

ROOT = Path(__file__).resolve().parent.parent
SQL = ROOT / "sql"


def unlisted(listed: list[str], sql: Path = SQL) -> list[str]:
    """Object files that the manifest omits. Migrations, and what runs around them, are none.

    Args:
        listed: Paths that the manifest lists, relative to sql/.
        sql: The folder sql/.
    """
    present = {path.relative_to(sql).as_posix() for path in sql.rglob("*.sql")}
    return sorted(path for path in present - set(listed) if not path.startswith(("install/", "migrations/")))


def main() -> int:
    """Run the check and return the exit status: 0 if the manifest is complete, else 1."""
    try:
        listed = runpy.run_path(str(ROOT / "mqpg" / "schema" / "assemble.py"))["manifest"](SQL)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    omitted = unlisted(listed)
    if omitted:
        print(f"sql/manifest.txt does not list: {', '.join(omitted)}", file=sys.stderr)
    return 1 if omitted else 0


if __name__ == "__main__":
    sys.exit(main())
