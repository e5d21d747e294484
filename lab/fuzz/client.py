"""Junk for every public method of the client: a result, or an exception of mqpg."""

from __future__ import annotations

import inspect
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import mqpg
from lab.fuzz.values import GROUPS, TOPICS, Report, numbers

__all__ = ["ClientFuzzer"]

# `close` ends the run, `transaction` and `queries` are no calls.
_LEFT_OUT = {"close", "transaction", "queries", "settings", "dsn", "generation", "closed"}


class _Odd:
    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


def _deep(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def _circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


JUNK: list[Any] = [
    None, "", " ", 0, 1, -1, 1.5, float("nan"), float("inf"), -float("inf"), b"\x00\xff", b"", "\x00", "a\ud800",
    "x" * 200, "é", "\u202e", [], {}, [None], ["a\ud800"], [b"\xff"], [2**70], [[1], [2]], ["x", 1], [_Odd()],
    {"a": {1, 2}}, {"a": "\ud800"}, {1: 2}, object(), _Odd(), True, False, len, int, 2**70, -(2**63), 10**5000,
    ("a",), range(3), {"a"}, iter("ab"), _deep(5000), _circular(), timedelta.max, timedelta(seconds=-1), datetime.max,
    datetime.now(UTC), mqpg.Json("{"), mqpg.Json("[" * 3000 + "]" * 3000), mqpg.Json("1" * 5000), Ellipsis, Exception,
    "30 s", "infinity", "$.a >", "$", '$.a like_regex "(a)\\\\1"', "1e400", "null", "{}",
]  # fmt: skip
# They would wait for as long as they say.
_WAITS: list[Any] = [0, 0.0, 0.01, -1, float("nan"), None, "x", "a\ud800", _Odd(), [], b""]


class ClientFuzzer:
    """Makes the calls on `mq`."""

    def __init__(self, mq: mqpg.Client, seed: int) -> None:
        self.mq, self.rng = mq, random.Random(seed)
        self.report = Report()
        self._handles: list[str] = ["none"]
        self._receipts: list[str] = ["none"]
        self._messages: list[Any] = [None]
        self.methods = sorted(
            name
            for name, member in inspect.getmembers(type(mq), callable)
            if not name.startswith("_") and name not in _LEFT_OUT
        )

    def run(self, calls: int, minutes: float | None = None) -> Report:
        """Make that many calls, and return what came of them. After `minutes` it makes no more."""
        for number in numbers(calls, minutes):
            if number % 50 == 0:
                self._fill()
            name = self.rng.choice(self.methods)
            self._one(name, getattr(self.mq, name))
        return self.report

    def _fill(self) -> None:
        for topic in TOPICS:
            self._quiet(self.mq.create_topic, topic, 1)
            self._quiet(self.mq.subscribe, "ga", topic)
            self._quiet(self.mq.send, topic, {"a": 1}, key="k1")
        self._quiet(self.mq.create_producer_group, "pa")
        self._handles += filter(None, [self._quiet(self.mq.prepare, "fa", 1, "pa")])
        self._quiet(self.mq.append)
        if delivery := self._quiet(self.mq.receive, "ga", "fa", 2, 0.5):
            self._receipts.append(delivery.receipt)
            self._messages += delivery
            for name in ("ack", "nack", "extend", "release"):
                self._one(f"Delivery.{name}", getattr(delivery, name))

    @staticmethod
    def _quiet(call: Any, *args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except mqpg.Error:
            return None

    def _value(self, name: str) -> Any:
        if name in ("wait", "timeout"):
            return self.rng.choice(_WAITS)
        rights: dict[str, list[Any]] = {
            "topic": TOPICS, "reply_topic": TOPICS, "consumer_group": GROUPS[:1], "producer_group": ["pa"],
            "handle": self._handles[-5:], "handles": [self._handles[-2:]], "receipt": self._receipts[-3:],
            "message": self._messages[-3:], "request": self._messages[-3:], "through": self._messages[-3:],
            "verdict": ["commit", "rollback", mqpg.Verdict.WAIT], "payload": [1, {"a": 1}], "payloads": [[1, 2]],
            "key": ["k1"], "target": ["latest", "0"], "reason": ["why"], "conn": [None],
        }  # fmt: skip
        return self.rng.choice(rights[name] if name in rights and self.rng.random() < 0.7 else JUNK)

    def _one(self, name: str, call: Any) -> None:
        args, named = [], {}
        for parameter in inspect.signature(call).parameters.values():
            required = parameter.default is parameter.empty
            if not required and self.rng.random() < 0.6:
                continue
            if required and parameter.kind is not parameter.KEYWORD_ONLY:
                args.append(self._value(parameter.name))
            else:
                named[parameter.name] = self._value(parameter.name)
        self.report.calls += 1
        self.report.called[name] += 1
        try:
            call(*args, **named)
            outcome = "ok"
            self.report.succeeded[name] += 1
        except mqpg.Error as error:
            outcome = type(error).__name__
            if "\n" in str(error):
                self.report.faults[f"{name} {outcome} of several lines"].append(str(error)[:300])
        except Exception as error:
            outcome = f"{type(error).__module__}.{type(error).__name__}"
            given = f"{[_short(one) for one in args]} { {key: _short(one) for key, one in named.items()} }"
            self.report.faults[f"{name} {outcome}"].append(f"{str(error)[:200]}: {given}")
        self.report.outcomes[outcome] += 1


def _short(value: Any) -> str:
    try:
        return repr(value)[:60]
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"
