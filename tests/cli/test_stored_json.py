"""JSON goes in without loss, or not at all, and comes out as the text that was stored."""

import dataclasses
import io
import json
import sys
from typing import Any

import pytest

import mqpg
from mqpg.cli.options import print_json
from mqpg.values.arguments import encode
from mqpg.values.json_output import dumps
from mqpg.web.rendering import _pretty
from tests.support.in_process import Run

SENT = '{"price": 1.10, "long": 0.12345678901234567890123, "huge": 1e400, "zero": -0, "same": 1, "same": 2}'


@dataclasses.dataclass
class Order:
    lines: Any


@pytest.mark.parametrize(
    "payload",
    [
        {1: "a", "1": "b"},
        {True: 1, "true": 2},
        {None: 1, "null": 2},
        {1.5: "x", "1.5": "y"},
        {"deep": [{2: "a", "2": "b"}]},
        [({"x": {False: 1, "false": 2}},)],
        Order({1: "a", "1": "b"}),
        {"o": [Order([{1: "a", "1": "b"}])]},
    ],
)
def test_keys_that_meet(payload: Any) -> None:
    with pytest.raises(mqpg.errors.InvalidArgument, match="same text"):
        encode(payload)


@pytest.mark.parametrize("payload", [{1: "a", "2": "b"}, {True: 1, 0: 2}, {None: {"null": 1}}, [{1: 1}, {"1": 1}]])
def test_keys_that_do_not_meet(payload: Any) -> None:
    assert encode(payload)


def test_commands_print_what_was_stored(dsn: str, run: Run) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.subscribe("g", "t", max_attempts=1)
        sent = mq.send("t", mqpg.Json(SENT), headers={"h": 1.5}, key="k")
        mq.append()
        mq.receive("g", "t", 1).nack("bad", final=True)
    for command in (
        ["peek", "t"],
        ["tail", "t"],
        ["trace", str(sent)],
        ["find", "t", "k"],
        ["dead-letters", "list", "g", "t"],
    ):
        out = run(*command, "--json")[1]
        assert SENT in out, command
        for line in out.splitlines() if command[0] == "tail" else [out]:
            json.loads(line, parse_constant=pytest.fail)


def test_a_payload_on_many_lines_is_one_line_of_tail(dsn: str, run: Run) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.send("t", mqpg.Json('{"a":\n\t1.0,\r\n "b": "\x9b\u2028"}'))
        mq.append()
    (line,) = run("tail", "t", "--json")[1].splitlines()
    assert json.loads(line)["payload"] == {"a": 1.0, "b": "\x9b\u2028"}


def test_every_letter_is_json(dsn: str, run: Run) -> None:
    """Also if the terminal knows only ASCII, which is what `tail` prints everywhere."""
    payload = {"é": "Zürich € 😀", "plain": "\\x41"}
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.send("t", payload, key="ключ")
        mq.append()
    assert json.loads(run("tail", "t", "--json")[1])["payload"] == payload
    assert json.loads(run("peek", "t", "--json")[1])[0]["payload"] == payload
    stored = dumps({"payload": mqpg.Json(json.dumps(payload, ensure_ascii=False))})
    assert stored.isascii()
    assert json.loads(stored) == {"payload": payload}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_for_every_terminal(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding, errors="backslashreplace"))
    print_json({"key": "Zürich €", "payload": mqpg.Json('"😀 é"'), "half": "\ud800"})
    sys.stdout.flush()
    found = json.loads(written.getvalue().decode(encoding))
    assert found == {"key": "Zürich €", "payload": "😀 é", "half": "\ud800"}


def test_the_dashboard_shows_what_was_stored() -> None:
    assert _pretty('{"a": 1.10, "b": [1e400, -0]}') == '{\n  "a": 1.10,\n  "b": [\n    1e400,\n    -0\n  ]\n}'
    assert _pretty('{"a": 1, "a": 2}') == '{"a": 1, "a": 2}'
