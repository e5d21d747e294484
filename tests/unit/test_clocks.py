"""Only databases tell the time: the clocks of producers, consumers and workers decide nothing.

They measure durations (time.monotonic), which no jump of a clock changes. Spark stamps its report,
and the demo and the chaos run their logs of kills.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = [path for folder in ("mqpg", "workers") for path in sorted((ROOT / folder).rglob("*.py"))]
SQL = [path for path in sorted((ROOT / "sql").rglob("*.sql")) if path.parent.name != "migrations"]
WALL_CLOCK = re.compile(r"\btime\.(time|time_ns|localtime|gmtime)\(|\b(datetime|date)\.(now|utcnow|today)\(")
# The beginning of a transaction, which may be long ago, is nobody's now.
# Times for the eyes of a reader only. `mqpg status` compares the clocks of this machine and of workers with
# the server's, and a span of OpenTelemetry has a beginning. Nodes of the chaos run show that a step of their
# clock is felt.
LOGS = [
    "mqpg/status/live_checks.py",
    "mqpg/tracing/recorded.py",
    "workers/heartbeat.py",
]
TRANSACTIONS_BEGIN = re.compile(r"\bnow\(\)|\bcurrent_timestamp\b|\blocaltimestamp\b|\btransaction_timestamp\(")


def without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def test_no_clock_of_a_process_is_read() -> None:
    assert [str(path.relative_to(ROOT)) for path in PYTHON if WALL_CLOCK.search(path.read_text())] == LOGS


def test_the_databases_clock_is_read_when_it_is_asked() -> None:
    found = [path.name for path in SQL if TRANSACTIONS_BEGIN.search(without_comments(path.read_text()))]
    assert found == []


@pytest.mark.parametrize("text", ["time.time()", "datetime.now(UTC)", "date.today()"])
def test_clocks_are_found(text: str) -> None:
    assert WALL_CLOCK.search(text)


@pytest.mark.parametrize("text", ["default now()", "at < current_timestamp"])
def test_transaction_times_are_found(text: str) -> None:
    assert TRANSACTIONS_BEGIN.search(text)
