"""What callers give, as the server takes it: bodies as JSON, lists, time spans."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, ValuesView
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from enum import Enum
from numbers import Integral
from typing import Any
from uuid import UUID

from mqpg.values.errors import InvalidArgument, shown
from mqpg.values.handle import EXAMPLE
from mqpg.values.messages import Interval, Json

__all__ = [
    "LONGEST_WAIT",
    "encode",
    "encode_all",
    "handle_of",
    "handles_of",
    "exactly_before",
    "interval",
    "label_of",
    "listed",
    "moment",
    "position",
    "schema_of",
    "seconds",
    "stored_json",
    "text_of",
    "whole",
]

LONGEST_WAIT = 1e9  # seconds, which no lock of Python can exceed
_LONGEST_LABEL = 512  # bytes of a key or a tag
_LONG = 1_000_000  # days
_OFFSETS = 2**63
_TIME = "a time with its offset from UTC, such as datetime(2026, 12, 1, 10, tzinfo=UTC) or '2026-12-01 10:00+01:00'"


def encode(payload: Any, name: str = "payload") -> str | None:
    """The JSON text of the argument called `name`. None stays None, which is an SQL null."""
    if payload is None:
        return None
    if isinstance(payload, Json):
        return payload.raw
    try:
        text = _ENCODER.encode(payload)
        _require_distinct_keys(payload)
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} must be an object that JSON can hold: {error}") from None


def _require_distinct_keys(value: Any) -> None:
    """Raise ValueError if two keys of an object become the same text, such as 1 and "1"."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            texts = [
                key if isinstance(key, str) else next(iter(json.loads(_ENCODER.encode({key: 0})))) for key in value
            ]
            if len(set(texts)) < len(texts):
                raise ValueError("two keys of an object become the same text")
        value = value.values()
    if isinstance(value, (list, tuple, ValuesView)):
        for one in value:
            if isinstance(one, (dict, list, tuple)):
                _require_distinct_keys(one)


def _jsonable(value: Any) -> Any:
    """What JSON holds of a value that it has no type for. Reading by its type gives it back."""
    found = _plain(value)
    _require_distinct_keys(found)
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(value, "__pydantic_serializer__") and not isinstance(value, type):
        # A dataclass of pydantic, which knows its aliases.
        return value.__pydantic_serializer__.to_python(value, mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (date, clock_time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


# Kept, because json.dumps makes one for each call with these options. It is not orjson, which
# writes null for NaN, writes some numbers differently (1e16), and refuses keys and integers that
# this one takes: what is stored must not depend on which packages are installed.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_jsonable)


def encode_all(payloads: Iterable[Any] | None, name: str = "payloads") -> list[str | None] | None:
    """The JSON texts of the elements of the argument called `name`."""
    listed_ = listed(payloads, name)
    return None if listed_ is None else [encode(one, f"{name}[{index}]") for index, one in enumerate(listed_)]


def listed(values: Iterable[Any] | None, name: str) -> list[Any] | None:
    """The argument called `name` as a list. Raises InvalidArgument where it cannot be one."""
    if values is None:
        return None
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{name} must be a list, not {shown(values)}")
    return list(values)


def handle_of(value: object, name: str = "handle") -> str:
    """The argument called `name`, which is text. The broker says what it names, if anything."""
    if isinstance(value, str):
        return value
    raise InvalidArgument(f"{name} must be the text that prepare returned, such as '{EXAMPLE}', not {shown(value)}")


def text_of(value: object, name: str) -> str:
    """The argument called `name`, which is text. Raises InvalidArgument."""
    if isinstance(value, str):
        return value
    raise InvalidArgument(f"{name} must be text, not {shown(value)}")


def label_of(value: object, name: str) -> str | None:
    """The argument called `name`, a key or a tag, as the broker takes it, or None. Raises InvalidArgument."""
    if value is None:
        return None
    text = text_of(value, name)
    try:
        if "\0" not in text and len(text.encode()) <= _LONGEST_LABEL:
            return text
    except UnicodeEncodeError:
        pass
    raise InvalidArgument(f"{name} must be text of at most {_LONGEST_LABEL} bytes, not {shown(value)}")


def stored_json(value: Any, name: str) -> str | None:
    """As `encode`, for what is sent later: text that is no JSON is refused now. Raises InvalidArgument."""
    text = encode(value, name)
    if text is None:
        return None
    try:
        text.encode()
        if isinstance(value, Json):
            json.loads(text, parse_int=str, parse_constant=_refuse)
    except RecursionError:  # the broker may read deeper
        pass
    except ValueError as error:
        raise InvalidArgument(f"{name} must be JSON: {error}") from None
    return text


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def schema_of(value: object) -> str | None:
    """The name of a schema, or None. Raises InvalidArgument."""
    if value is None or (isinstance(value, str) and value and "\0" not in value):
        return value
    raise InvalidArgument(f"schema must be the name of a schema or None, not {shown(value)}")


def handles_of(values: Iterable[Any] | None) -> list[str] | None:
    """The argument `handles`."""
    handles = listed(values, "handles")
    return None if handles is None else [handle_of(one, f"handles[{index}]") for index, one in enumerate(handles)]


def interval(value: Interval | None, name: str = "a time span") -> timedelta | str | None:
    """A time span as the server takes it. Numbers are seconds, and text is the server's to read.

    Anything but text becomes exact seconds: PostgreSQL's days are an hour longer or shorter where the clocks change.
    """
    if value is None or isinstance(value, str):
        return value
    try:
        span = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, TypeError, ValueError):
        raise InvalidArgument(
            f"{name} must be a timedelta, a number of seconds, or text such as '30 s', not {shown(value)}"
        ) from None
    if abs(span.days) > _LONG:
        return span  # more seconds than the server takes, and longer than any span may be
    sign, span = ("-", -span) if span < timedelta(0) else ("", span)
    return f"{sign}{span.days * 86400 + span.seconds}.{span.microseconds:06d} s"


def exactly_before(time: datetime, span: timedelta) -> datetime:
    """The time that is so many seconds earlier. In a zone of its own Python would count by the clock on the wall."""
    return (time if time.tzinfo is None else time.astimezone(UTC)) - span


def moment(value: object, name: str) -> datetime | None:
    """The argument called `name`, a time with its zone. The server would choose one for another."""
    if value is None:
        return None
    if (found := _time(value)) is None:
        raise InvalidArgument(f"{name} must be {_TIME}, not {shown(value)}")
    return found


def position(value: object, name: str, *, offset: bool) -> str | None:
    """The argument called `name`, a place in a queue, as the server takes it.

    It is a word or a time with its zone, and with `offset` also an offset.
    """
    if value is None or value in ("earliest", "latest"):
        return value
    if offset and _is_offset(value):
        return str(value)
    if (found := _time(value)) is None:
        words = "'earliest', 'latest', an offset" if offset else "'earliest', 'latest'"
        raise InvalidArgument(f"{name} must be {words} or {_TIME}, not {shown(value)}")
    return found.isoformat()


def _is_offset(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch("-?[0-9]+", value) is not None
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _OFFSETS


def _time(value: object) -> datetime | None:
    """A time with its zone. None: it is no time, or has no zone."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return found if isinstance(found, datetime) and found.utcoffset() is not None else None


def seconds(value: object, name: str) -> float:
    """The argument called `name`, a number of seconds. Raises InvalidArgument."""
    if isinstance(value, (int, float)) and value >= 0:
        return float(min(value, LONGEST_WAIT))
    raise InvalidArgument(f"{name} must be a number of seconds, 0 or more, not {shown(value)}")


def whole(value: object, name: str, least: int | None = None, most: int | None = None) -> int:
    """The argument called `name`, a whole number from `least` to `most`. Raises InvalidArgument."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if (least is None or number >= least) and (most is None or number <= most):
            return number
    bounds = "" if least is None else f", {least} or more" if most is None else f" from {least} to {most}"
    raise InvalidArgument(f"{name} must be a whole number{bounds}, not {shown(value)}")
