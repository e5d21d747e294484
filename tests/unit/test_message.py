"""Values: JSON, time spans, messages."""

from datetime import UTC, datetime, timedelta

import pytest

from mqpg import errors
from mqpg.values.arguments import encode, interval
from mqpg.values.messages import Json, Message


def test_payloads_are_encoded_compactly_and_raw_json_is_kept() -> None:
    assert encode({"ä": [1, None, True]}) == '{"ä":[1,null,true]}'
    assert encode(Json('{ "a" : 1 }')) == '{ "a" : 1 }'
    assert encode(Json(b"[1]")) == "[1]"
    assert encode(None) is None
    assert encode(Json("null")) == "null"


@pytest.mark.parametrize("payload", [float("nan"), object(), {1, 2}, {(1, 2): 3}])
def test_what_is_not_json_is_refused(payload: object) -> None:
    with pytest.raises(errors.InvalidArgument, match="payload must be an object that JSON can hold"):
        encode(payload)


def test_time_spans() -> None:
    assert interval(1.5) == "1.500000 s"
    assert interval(-0.5) == "-0.500000 s"
    assert interval("30 s") == "30 s"
    assert interval(timedelta(days=180)) == "15552000.000000 s"  # whatever the clocks on the wall do
    assert interval(None) is None
    with pytest.raises(errors.InvalidArgument, match="a time span must be a timedelta"):
        interval(1e300)
    with pytest.raises(errors.InvalidArgument, match="a time span must be a timedelta"):
        interval([])  # type: ignore[arg-type]


def test_a_message_decodes_its_payload_when_asked() -> None:
    row = (1, "t", 0, 5, "k", None, '{"h":1}', '{"a": 1}', datetime.now(UTC), 1, "r")
    message = Message._from_row(row)
    assert message.headers == {"h": 1}
    assert message.raw == '{"a": 1}'
    assert message.payload == {"a": 1}
    assert message.payload is message.payload
