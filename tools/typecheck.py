"""Run mypy (strict, see pyproject.toml) over everything that is installed, and over tools/ and proof/.

mypy does not know the package-dir of setuptools. It is therefore given a folder of symbolic links
in which the packages have their installed names. Its messages are translated to the real paths.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FARM = ROOT / ".mypy_cache" / "packages"

sys.path.insert(0, str(ROOT))
from setup import FOLDERS  # noqa: E402

__all__ = ["main"]


def _farm() -> None:
    package = FARM / "mqpg"
    package.mkdir(parents=True, exist_ok=True)
    links = {entry.name: entry for entry in (ROOT / FOLDERS["mqpg"]).iterdir() if entry.name != "__pycache__"}
    links |= {name.removeprefix("mqpg."): ROOT / folder for name, folder in FOLDERS.items() if name != "mqpg"}
    for old in package.iterdir():
        old.unlink()
    for name, target in links.items():
        (package / name).symlink_to(target)


def _real(line: str) -> str:
    prefix = f"{(FARM / 'mqpg').relative_to(ROOT)}/"
    if not line.startswith(prefix):
        return line
    top, _, rest = line.removeprefix(prefix).partition("/")
    return f"{FOLDERS.get(f'mqpg.{top}', f'mqpg/{top}')}/{rest}" if rest else f"mqpg/{top}"


def main() -> int:
    """Run mypy and return its exit status."""
    _farm()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "-p", "mqpg"],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(FARM)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print("\n".join(map(_real, done.stdout.splitlines())))
    tools = [str(path) for folder in ("tools", "proof") for path in sorted((ROOT / folder).glob("*.py"))]
    own = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--scripts-are-modules", *tools],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(ROOT / "proof")},
        check=False,
    )
    return done.returncode or own.returncode


if __name__ == "__main__":
    sys.exit(main())
