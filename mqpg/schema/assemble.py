"""The whole schema, assembled from the object files that `manifest.txt` lists in install order.

`mqpg.schema` installs it. `tools/check_manifest.py` checks its input. This module imports nothing
of mqpg, so that the tool can load it by its path.
"""

from __future__ import annotations

from importlib.resources.abc import Traversable

__all__ = ["assemble", "manifest"]

_HEADER = "-- Assembled from the files named below, in the order of sql/manifest.txt: edit those, not this text.\n"


def manifest(folder: Traversable) -> list[str]:
    """Paths below `folder` in install order; `#` begins a comment.

    Raises:
        ValueError: The manifest names a file twice, or one that does not exist.
    """
    lines = (folder / "manifest.txt").read_text(encoding="utf-8").splitlines()
    paths = [path for line in lines if (path := line.split("#", 1)[0].strip())]
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    if doubled:
        raise ValueError(f"sql/manifest.txt names these twice: {', '.join(doubled)}")
    missing = [path for path in paths if not folder.joinpath(path).is_file()]
    if missing:
        raise ValueError(f"sql/manifest.txt names files that do not exist: {', '.join(missing)}")
    return paths


def assemble(folder: Traversable) -> str:
    """The text of the whole schema.

    Args:
        folder: The folder `sql` of a checkout, or the installed package `mqpg.sql`.

    Raises:
        ValueError: See `manifest`.
    """
    parts = [f"\n-- {path}\n{folder.joinpath(path).read_text(encoding='utf-8').strip()}\n" for path in manifest(folder)]
    return _HEADER + "".join(parts)
