"""Refuse large files: a run's log or a dump belongs outside the repository.

python tools/file_size.py FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["main"]

MOST = 200_000  # bytes


def main(names: list[str]) -> int:
    """Name the files that are too large.

    Args:
        names: Paths of files.

    Returns:
        The exit status: 1 if a file is too large, else 0.
    """
    large = [name for name in names if Path(name).is_file() and Path(name).stat().st_size > MOST]
    for name in large:
        print(f"{name}: {Path(name).stat().st_size:,} bytes, more than {MOST:,}", file=sys.stderr)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
