"""Parts of the workers that need no server: pace, back-off, log lines, names of ledgers, the
request to stop.
"""

import json
import logging
import os
import threading
from collections.abc import Iterator

import pytest

from mqpg.cli.stop_signals import stop_on_eof
from mqpg.connection.backoff import Backoff
from mqpg.errors import ConfigurationError
from mqpg.workers.append_pace import AppendPace
from mqpg.workers.logs import LogFormat, configure
from mqpg.workers.served_ledgers import find_url, known_ledgers
from mqpg.workers.start import parse_ledgers


def test_pace_is_none_with_work_and_grows_to_the_limit_without() -> None:
    pace = AppendPace(most=0.05)
    pauses = [pace.after(0) for _ in range(20)]
    assert pauses[0] == 0.001
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.05
    assert [pace.after(3), pace.after(0)] == [0.0, 0.001]


def test_pace_shares_the_cost_of_a_pass_among_many_messages() -> None:
    pace = AppendPace()
    assert pace.after(99, 0.002) == 0.004
    assert pace.after(100, 0.002) == 0.016
    assert pace.after(5000, 1.0) == 0.05


def test_pace_is_quick_for_a_while_after_few_messages() -> None:
    pace = AppendPace(most=0.05)
    assert pace.after(3, 0.002) == 0.001
    pauses = [pace.after(0, 0.001) for _ in range(50)]
    assert pauses[:20] == [0.001] * 20
    assert pauses[-1] == 0.05


def test_backoff_grows_to_its_limit_and_starts_anew() -> None:
    backoff = Backoff(first=0.1, most=1.0)
    pauses = [backoff.next() for _ in range(50)]
    assert 0.07 <= pauses[0] <= 0.1
    assert all(0.7 <= pause <= 1.0 for pause in pauses[5:])
    backoff.reset()
    assert backoff.next() <= 0.1


@pytest.fixture
def root_logger() -> Iterator[None]:
    """Restore logging after the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("root_logger")
def test_log_lines_are_one_line_with_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure("appender")
    logging.getLogger("x").info("two\nlines", extra={"pid": 7, "why": 'a "b" c'})
    logging.getLogger("x").debug("not shown")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r'Z info appender two lines pid=7 why="a \"b\" c"')


@pytest.mark.usefixtures("root_logger")
def test_log_lines_keep_what_others_sent_from_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure("consumer")
    try:
        raise ValueError("\x1b[2J of a payload")
    except ValueError as error:
        logging.getLogger("x").exception("\x1b]0;title\x07 of a key", extra={"reason": error, "tag": "\x9b31m"})
    first, *trace = capsys.readouterr().err.splitlines()
    said = r'error consumer \x1b]0;title\x07 of a key reason="\u001b[2J of a payload" tag=\x9b31m'
    assert first.endswith(said), first
    assert trace[-1] == r"ValueError: \x1b[2J of a payload"
    assert trace[0].startswith("Traceback")


@pytest.mark.usefixtures("root_logger")
def test_log_lines_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure("keeper", "debug", LogFormat.JSON)
    logging.getLogger("x").debug("said", extra={"pid": 7})
    assert json.loads(capsys.readouterr().err).items() >= {
        ("level", "debug"),
        ("role", "keeper"),
        ("message", "said"),
        ("pid", 7),
    }
    with pytest.raises(ConfigurationError, match="--log-level must be"):
        configure("keeper", "loud")


def test_ledgers_of_the_command_line_come_before_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_LEDGER_SHOP_1", "sqlite:///variable.db")
    given = parse_ledgers(["depot=postgresql://h/d?a=b"])
    assert given == {"depot": "postgresql://h/d?a=b"}
    assert find_url("shop-1", given) == "sqlite:///variable.db"
    assert find_url("shop-1", {"shop-1": "sqlite:///given.db"}) == "sqlite:///given.db"
    assert find_url("nobody", given) is None
    monkeypatch.setenv("MQPG_LEDGER_NOBODY", "")
    assert find_url("nobody", given) is None
    assert known_ledgers(given) == ["MQPG_LEDGER_DEPOT", "MQPG_LEDGER_SHOP_1"]
    for wrong in ("shop", "=sqlite://", "shop=shop.db"):
        with pytest.raises(ConfigurationError, match="--ledger must be name=url"):
            parse_ledgers([wrong])


def test_the_end_of_the_parents_pipe_sets_the_event() -> None:
    read_end, write_end = os.pipe()
    stop = threading.Event()
    stop_on_eof(stop, read_end)
    os.write(write_end, b"anything")
    assert not stop.wait(0.05)
    os.close(write_end)
    assert stop.wait(10)
    os.close(read_end)
