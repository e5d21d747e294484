"""Arguments of random calls: right ones by their names, hostile ones by their types."""

from __future__ import annotations

import random

from tests.support.hostile import HOSTILE, SINCE_17

__all__ = ["hostile", "quoted", "right"]


# Words that are right in some function.
_RIGHT: dict[str, list[str]] = {
    "topic": ["fa", "fb", "fr"],
    "consumer_group": ["ga", "gs", "gp", "gc", "gf", "gb"],
    "producer_group": ["pa", "pl", "pf"],
    "consumer": ["c1", "c2"],
    "after_consumer": ["c1", "c2"],
    "key": ["k1", "k2", "k3"],
    "tag": ["t1", "t2"],
    "mode": ["exclusive", "shared", "pinned", "broadcast"],
    "start": ["earliest", "latest", "2020-01-01"],
    "target": ["earliest", "latest", "0", "3", "2020-01-01"],
    "kind": ["normal", "relay"],
    "on_failure": ["skip", "block_key", "block_queue"],
    "on_exhausted": ["park", "rollback"],
    "on_expired": ["skip", "dead_letter"],
    "checker": ["due_checks", "ledger", "function", "url"],
    "checker_target": ["shop", "public.fuzz_answer"],
    "verdict": ["commit", "rollback"],
    "payload": ["1", '{"a": 1}', "[]", '"x"'],
    "headers": ["{}", '{"x": 1}'],
    "dedup_id": ["d1", "d2", "d3"],
    "role": ["pg_monitor"],
    "reason": ["why"],
}
_TYPES: dict[str, list[str]] = {
    "integer": ["-1", "0", "1", "2", "10", "100"],
    "bigint": ["0", "1", "2", "100"],
    "interval": ["10 ms", "1 s", "30 s", "1 day"],
    "boolean": ["true", "false"],
    "jsonpath": ["$.a > 0", "$key == \"k1\"", "exists($.a)"],
    "timestamp with time zone": ["2020-01-01", "2100-01-01"],
}  # fmt: skip
# What the tables of single calls have not, because there every value must parse.
_MORE: dict[str, list[str]] = {
    "text": ["E'\\u202e'", "repeat('x', 127)", "'fa'", "'ga'", "E'fa\\n'", "'FA'"],
    "jsonpath": ["'@'", "'last'", "''", "'$.a like_regex \"^(.+)\\\\1\\\\1$\"'", "'$.a like_regex \"(\"'"],
    "json": ["'{'", "''", "'nul'", "'\"' || E'\\t' || '\"'"],
    "jsonb": ["'{'", "''", '\'{"a": "\\u0000"}\'', "'\"\\ud800\"'"],
    "mqpg.verdict": ["'x'", "''"],
}


def quoted(value: object) -> str:
    """The value as an SQL literal."""
    return "'" + str(value).replace("'", "''") + "'"


def right(rng: random.Random, name: str, kind: str, live: dict[str, list[object]]) -> str:
    """An expression for a value that is right somewhere: a live one, or one by its name or type."""
    if kind.endswith("[]"):
        base = {"handles": "handle", "message_ids": "message_id"}.get(name, name.removesuffix("s"))
        items = [right(rng, base, kind[:-2], live) for _ in range(rng.choice([1, 1, 2, 3]))]
        return f"array[{', '.join(items)}]::{kind}"
    if found := live.get(name):
        return quoted(rng.choice(found))
    words = _RIGHT.get(name) or _TYPES.get(kind)
    return quoted(rng.choice(words)) if words else "null"


def hostile(rng: random.Random, kind: str, live: dict[str, list[object]], version: int) -> str:
    """An expression for a value of the type that few people try."""
    values = [
        "null",
        *(v for v in HOSTILE.get(kind, ["''", "'x'", "'0'"]) if version >= 170000 or (kind, v) not in SINCE_17),
        *_MORE.get(kind, ()),
    ]
    secrets = [str(one) for name in ("handle", "receipt") for one in live.get(name, ())]
    if kind == "text" and secrets and rng.random() < 0.3:
        values = [quoted(one) for one in _bent(rng, rng.choice(secrets))]
    return str(rng.choice(values))


def _bent(rng: random.Random, secret: str) -> list[str]:
    """A handle or receipt with a mistake in it."""
    at = rng.randrange(len(secret))
    return [
        secret[:at] + rng.choice("0129af.-x") + secret[at + 1 :],
        secret + "0",
        secret[1:],
        secret.upper(),
        secret + " ",
    ]
