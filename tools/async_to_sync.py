"""Generate mqpg/_sync from mqpg/_async.

    python tools/async_to_sync.py           write the files
    python tools/async_to_sync.py --check   exit 1 and name the files that are out of date

It works on tokens, so comments and layout survive. It removes `async` and `await` and replaces the
names of NAMES, also in docstrings and other strings. All other differences are in `_acompat.py` and
`_batcher.py`, which are written by hand on both sides.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

__all__ = ["convert", "main"]

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TARGET = ROOT / "mqpg" / "_async", ROOT / "mqpg" / "_sync"
BY_HAND = {"_acompat.py", "_batcher.py"}

NAMES = {
    "_async": "_sync",
    "AsyncBrokers": "Brokers",
    "AsyncClient": "Client",
    "AsyncClosing": "Closing",
    "AsyncConsumer": "Consumer",
    "AsyncDelivery": "Delivery",
    "AsyncGenerator": "Generator",
    "AsyncInbox": "Inbox",
    "AsyncIterator": "Iterator",
    "AsyncLedger": "Ledger",
    "AsyncOutboxProducer": "OutboxProducer",
    "AsyncPostProducer": "PostProducer",
    "AsyncReconciler": "Reconciler",
    "AsyncRecovering": "Recovering",
    "AsyncTransactionalProducer": "TransactionalProducer",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "asynccontextmanager": "contextmanager",
    "asynchronous": "synchronous",
    "connect_async": "connect",
}
# An asynchronous standby is one in either variant.
_NAME = re.compile(r"\b(" + "|".join(map(re.escape, NAMES)) + r")\b(?! standby)")
_AWAIT = re.compile(r"\b(?:await|async) ")
_STRINGS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def convert(text: str, name: str) -> str:
    """Convert the text of one asynchronous file.

    Args:
        text: The Python source.
        name: Path of the file below mqpg/_async, for the header comment.

    Returns:
        The synchronous source, not yet formatted.
    """
    lines = text.splitlines(keepends=True)
    edits: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string in {"async", "await"}:
            edits.append((token.start, (token.end[0], token.end[1] + 1), ""))
        elif token.type == tokenize.NAME and token.string in NAMES:
            edits.append((token.start, token.end, NAMES[token.string]))
        elif token.type in _STRINGS:
            changed = _AWAIT.sub("", _NAME.sub(lambda match: NAMES[match[1]], token.string))
            if changed != token.string:
                edits.append((token.start, token.end, changed))
    for start, end, new in reversed(edits):
        first, last = start[0] - 1, end[0] - 1
        lines[first : last + 1] = [lines[first][: start[1]] + new + lines[last][end[1] :]]
    return f"# Generated from mqpg/_async/{name} by tools/async_to_sync.py: change that file.\n{''.join(lines)}"


def _ruff(folder: Path) -> None:
    for command in (["check", "--select", "I", "--fix"], ["format"]):
        arguments = ["--quiet", "--config", str(ROOT / "pyproject.toml"), str(folder)]
        subprocess.run([sys.executable, "-m", "ruff", *command, *arguments], check=True, cwd=ROOT)


def _sources() -> list[str]:
    """Paths of the files to convert, relative to SOURCE, in all folders."""
    found = (path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return sorted(name for name in found if name not in BY_HAND)


def _leftovers(wanted: list[str]) -> list[str]:
    """Generated files whose source no longer exists."""
    there = {path.relative_to(TARGET).as_posix() for path in TARGET.rglob("*.py")}
    return sorted(there - set(wanted) - BY_HAND)


def _generated(names: list[str]) -> dict[str, str]:
    """What the synchronous files should contain; all are formatted at once."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), {name: convert((SOURCE / name).read_text(encoding="utf-8"), name) for name in names})
        _ruff(Path(folder))
        return {name: (Path(folder) / name).read_text(encoding="utf-8") for name in names}


def _write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Write the generated files, or compare them.

    Args:
        argv: Arguments of the command line; None: those of the process.

    Returns:
        The exit status: 1 if --check found a file that is out of date, else 0.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is out of date")
    check = parser.parse_args(argv).check
    wanted = _sources()
    leftovers = _leftovers(wanted)
    changed = {
        name: text
        for name, text in _generated(wanted).items()
        if not (TARGET / name).exists() or (TARGET / name).read_text(encoding="utf-8") != text
    }
    if not check:
        _write(TARGET, changed)
        for name in leftovers:
            (TARGET / name).unlink()
        return 0
    stale = [*leftovers, *changed]
    for name in stale:
        print(f"mqpg/_sync/{name} is out of date: run python tools/async_to_sync.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
