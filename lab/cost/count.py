"""Count the instructions of PostgreSQL's single-user mode with Callgrind.

A count is the same on every machine and under any load, while a time is not. All cases run in one
process. Callgrind writes a dump before each call of a function that only a marker statement calls,
so markers before and after some statements cut these out.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from mqpg.embedded.programs import current_account

from .cases import Case

__all__ = ["count"]

_FUNCTION = "pg_stat_clear_snapshot"
_MARKER = f"select {_FUNCTION}();"
_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)


def count(program: Path, data: Path, database: str, cases: Sequence[Case]) -> list[float]:
    """Run the cases on the data of a stopped server.

    Args:
        program: PostgreSQL's server program.
        data: Its data directory.
        database: The database in it.
        cases: What is counted.

    Returns:
        For each case the instructions of one message.

    Raises:
        RuntimeError: A statement failed; the message is PostgreSQL's.
    """
    # append() makes a segment at random, with this seed in no pass. What lies between the two markers is
    # the cost of a marker.
    lines = ["select setseed(0);", _MARKER, _MARKER]
    marks, counted = 2, list[range]()
    for number, case in enumerate(cases):
        for line in _lines(number, case):
            lines.append(line)
        pieces = lines.count(_MARKER) - marks
        counted.append(range(marks + 2, marks + pieces + 1, 2))
        marks += pieces
    totals = _run(program, data, database, lines)
    # The median, because a call may also do what is done once a second, which depends on the load.
    return [
        median(totals[mark] - totals[2] for mark in of) * len(of) / case.times[1] / case.messages
        for case, of in zip(cases, counted, strict=True)
    ]


def _lines(number: int, case: Case) -> Iterator[str]:
    """The statements of a case in their order, with a marker before and after what is counted."""
    statements = (*case.before, *case.counted)
    for at, statement in enumerate(statements):
        yield f"prepare c{number}_{at} as {statement};"
    executed = [f"execute c{number}_{at};" for at in range(len(statements))]
    before, call = executed[: len(case.before)], executed[len(case.before) :]
    warm, times = case.times
    yield from (before + call) * warm
    if before:
        yield from [*before, _MARKER, *call, _MARKER] * times
    else:
        yield from [_MARKER, *call * times, _MARKER]


def _run(program: Path, data: Path, database: str, lines: Sequence[str]) -> dict[int, int]:
    """The instructions before each marker since the one before it."""
    account = current_account()
    with tempfile.TemporaryDirectory() as folder:
        account.give(Path(folder))
        command = ["valgrind", "--tool=callgrind", f"--dump-before={_FUNCTION}", f"--callgrind-out-file={folder}/out",
            str(program), "--single", "-D", str(data), "-c", "jit=off", database]  # fmt: skip
        options = account.options() | {"stdin": subprocess.PIPE}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        text = server.communicate("\n".join(lines).encode() + b"\n")[0].decode(errors="replace")
        if server.returncode or (errors := re.search(r"(ERROR|FATAL): .*", text)):
            raise RuntimeError(errors[0] if errors else text[-2000:])
        dumps = {int(path.suffix[1:]): path.read_text() for path in Path(folder).glob("out.*")}
        return {number: int(found[1]) for number, dump in dumps.items() if (found := _TOTAL.search(dump))}
