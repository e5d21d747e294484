"""What would move something, as a statement and as a command."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer import Context

from mqpg.values.cause import Cause, Remedy
from mqpg.values.cause_sentences import SENTENCES, explain
from mqpg.values.remedies import COMMANDS, as_command, as_sql
from mqpg.values.words import duration
from tests.support.commands import COMMANDS as OF_MQPG

SQL = Path(__file__).parents[2] / "sql" / "functions"


@pytest.mark.parametrize(
    ("remedy", "statement", "command"),
    [
        (Remedy("append", {}), "select mqpg.append()", "mqpg worker"),
        (Remedy("resume", {"topic": "t"}), "select mqpg.resume(topic => 't')", "mqpg topic resume t"),
        (
            Remedy("resume", {"topic": "t", "consumer_group": "g"}),
            "select mqpg.resume(consumer_group => 'g', topic => 't')",
            "mqpg subscription resume g t",
        ),
        (
            Remedy("seek", {"topic": "t", "target": "7", "queue_id": -1, "consumer": "it's", "consumer_group": "g"}),
            "select mqpg.seek(consumer_group => 'g', topic => 't', target => '7', queue_id => -1, consumer => 'it''s')",
            "mqpg subscription seek g t 7 --queue -1 --consumer 'it'\"'\"'s'",
        ),
        (
            Remedy("redrive", {"consumer_group": "g", "topic": "t", "message_ids": [17, 18]}),
            "select mqpg.redrive(consumer_group => 'g', topic => 't', message_ids => array[17, 18])",
            "mqpg dead-letters redrive g t --id 17 --id 18",
        ),
        (
            Remedy("drop_topic", {"topic": "t", "force": True}),
            "select mqpg.drop_topic(topic => 't', force => true)",
            "mqpg topic drop t --force",
        ),
        (
            Remedy("alter_subscription", {"consumer_group": "g", "topic": "t", "tags": None, "filter": None}),
            "select mqpg.alter_subscription(consumer_group => 'g', topic => 't', filter => ..., tags => ...)",
            "mqpg subscription alter g t --filter FILTER --tag TAGS",
        ),
        (Remedy("subscribe", {"consumer_group": None, "topic": "t"}),
         "select mqpg.subscribe(consumer_group => ..., topic => 't')", "mqpg subscription add GROUP t"),
        (Remedy("grant_send", {"topic": "t", "role": "-v it's"}),
         "select mqpg.grant_send(topic => 't', role => '-v it''s')",
         "mqpg grant send -- t '-v it'\"'\"'s'"),
        (Remedy("grant_worker", {"role": "--dsn"}), "select mqpg.grant_worker(role => '--dsn')",
         "mqpg grant worker -- --dsn"),
    ],
)  # fmt: skip
def test_a_remedy_in_both_forms(remedy: Remedy, statement: str, command: str) -> None:
    assert (as_sql(remedy), as_command(remedy)) == (statement, command)


@pytest.mark.parametrize("function", COMMANDS)
def test_the_command_takes_the_arguments(function: str) -> None:
    values = {"force": True, "verdict": "commit"}
    names = [*COMMANDS[function].places, *COMMANDS[function].options]
    _, *words = shlex.split(as_command(Remedy(function, {name: values.get(name, "1") for name in names})))
    name, count = max((" ".join(words[:n]), n) for n in (1, 2) if " ".join(words[:n]) in OF_MQPG)
    command = OF_MQPG[name]
    command.make_context(name, words[count:], parent=Context(command))


def test_every_function_that_sql_names_has_its_command() -> None:
    text = "".join(path.read_text() for path in SQL.rglob("*.sql"))
    named = set(re.findall(r"_remedy\('(\w+)'", text)) | set(re.findall(r"'(grant_\w+)', (?:jsonb|'\{)", text))
    named |= {f"grant_{right}" for right in re.findall(r"_require_privilege\('(\w+)'", text)}
    assert {"seek", "redrive", "grant_send", "grant_operator"} <= named
    assert named <= COMMANDS.keys()


def test_every_cause_has_its_sentence() -> None:
    """Those that SQL assigns, and those of the functions that select them."""
    found = set[str]()
    for path in (SQL / "why").glob("_why*.sql"):
        text = path.read_text()
        for assigned in re.findall(r"cause := (.*?);", text, re.DOTALL):
            found |= set(re.findall(r"(?:^|then |else )'(\w+)'", assigned))
        found |= set(re.findall(r"select '(\w+)',", text))
    assert found == SENTENCES.keys()


@pytest.mark.parametrize(
    ("consumers", "seconds", "said"),
    [
        (0, 3600, "start mqpg consume for group billing"),
        (2, 5, "start mqpg consume for group billing"),
        (2, 3600, "2 consumers of the group said a moment ago to be alive, but nothing was asked for or acknowledged for "
         "1 h: look what the handler, or its database, waits for"),
        (2, None, "start mqpg consume for group billing"),
    ],
)  # fmt: skip
def test_a_group_whose_consumers_hang_needs_no_further_one(consumers: int, seconds: int | None, said: str) -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    active = None if seconds is None else (at - timedelta(seconds=seconds)).isoformat()
    facts = {"consumer_group": "billing", "consumers": consumers, "last_active_at": active}
    assert explain(Cause("waiting_for_consumer", facts, None, at)).startswith(said)


def test_a_cause_of_a_newer_broker_says_nothing() -> None:
    assert explain(Cause("unheard_of", {})) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (119.4, "119 s"), (120, "2 min"), (1359, "22 min 39 s"), (3600, "1 h"), (7501, "2 h 5 min"),
     (93600, "1 d 2 h")],
)  # fmt: skip
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_name_of_a_prepared_transaction_is_quoted() -> None:
    """Anybody who may prepare a transaction chooses it."""
    cause = Cause("queue_locked", {"queue_id": 0, "prepared_transaction": "a'; drop table b; --"}, None, None)
    assert "rollback prepared 'a''; drop table b; --'" in explain(cause)
