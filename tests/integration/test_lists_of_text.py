"""Lists of text reach the server as they are, whatever characters they have."""

import pytest

import mqpg

pytestmark = pytest.mark.shared_database

NASTY = [
    'a "quoted" word', "back\\slash", '\\"', "{}", "{a,b}", ",", "NULL", "null", " ", "tab\tand\nline", "it's", "%s %(x)s",
    "é ü 漢 🦆", "\\", '"', "ends with \\",
]  # fmt: skip


@pytest.fixture
def topic(mq: mqpg.Client) -> str:
    mq.create_topic("t", queues=1)
    mq.subscribe("g", "t")
    mq.create_producer_group("p")
    return "t"


@pytest.mark.parametrize("how", ["pool", "conn"])
def test_each_text_arrives_unchanged(mq: mqpg.Client, topic: str, how: str) -> None:
    keys = [*NASTY, None]
    payloads = [{"text": text} for text in keys]
    headers = [*({"header": text} for text in NASTY), None]
    if how == "pool":
        mq.send_batch(topic, payloads, keys=keys, tags=keys, headers=headers)
    else:
        with mq.transaction() as conn:
            mq.send_batch(topic, payloads, keys=keys, tags=keys, headers=headers, conn=conn)
    mq.append()
    found = mq.receive("g", topic, max_messages=100)
    by_text = {message.payload["text"]: message for message in found}
    assert set(by_text) == set(keys)
    for text in keys:
        message = by_text[text]
        assert (message.key, message.tag) == (text, text)
        assert message.headers == (None if text is None else {"header": text})


def test_an_empty_list_and_one_of_nulls(mq: mqpg.Client, topic: str) -> None:
    assert mq.send_batch(topic, []) == []
    assert len(mq.send_batch(topic, [1, 2], keys=[None, None])) == 2


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", 5, b"bytes"])
def test_what_is_no_text_is_refused_by_name(mq: mqpg.Client, topic: str, bad: object) -> None:
    with pytest.raises(mqpg.errors.InvalidArgument, match=r"\bkeys\b"):
        mq.send_batch(topic, [1, 2], keys=["fine", bad])  # type: ignore[list-item]
