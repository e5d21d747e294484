#!/usr/bin/env python
"""Build sdist and wheel so that the same commit gives the same bytes, for `make dist`.

Each of two builds starts from a clean clone of HEAD. Times are those of the commit, unless
SOURCE_DATE_EPOCH is set. The sdist is written again in a fixed order and without the builder's
name, because setuptools keeps the order and the times of the file system. The second build is of
the sdist, unpacked, and must give the same wheel. twine checks what a package index would.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str, cwd: Path | None = None, epoch: int | None = None) -> str:
    environment = os.environ | ({"SOURCE_DATE_EPOCH": str(epoch)} if epoch is not None else {})
    done = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True, check=True, umask=0o022)
    return done.stdout.strip()


def normalize(path: Path, epoch: int) -> None:
    """Write an sdist again with sorted members, one time, and no owner."""
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch))


def build(scratch: Path, epoch: int) -> list[Path]:
    """Build both from a clean clone; return the sdist and the wheel."""
    source, target = scratch / "source", scratch / "dist"
    run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(source))
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(target), str(source), epoch=epoch)
    (sdist,) = target.glob("*.tar.gz")
    normalize(sdist, epoch)
    with tarfile.open(sdist) as file:
        file.extractall(scratch, filter="data")
    unpacked = scratch / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", str(target), str(unpacked), epoch=epoch)
    (wheel,) = target.glob("*.whl")
    return [sdist, wheel]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Build twice, compare, and leave the result in dist/."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = build(Path(one), epoch), build(Path(two), epoch)
        differing = [a.name for a, b in zip(first, second, strict=True) if digest(a) != digest(b)]
        if differing:
            sys.exit(f"mqpg: two builds of this commit differ in {', '.join(differing)}")
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, first))
        target = ROOT / "dist"
        target.mkdir(exist_ok=True)
        for path in first:
            (target / path.name).write_bytes(path.read_bytes())
            print(f"{digest(path)}  dist/{path.name}")


if __name__ == "__main__":
    main()
