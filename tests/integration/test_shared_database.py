"""A database that tests share is as new, or another one."""

import psycopg
import pytest

import mqpg
from tests.fixtures.reused import Reused


def _backends(dsn: str) -> set[int]:
    with psycopg.connect(dsn) as connection:
        query = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        return {row[0] for row in connection.execute(query)}


def test_it_is_emptied_and_clients_get_the_sessions_of_closed_ones(reused: Reused) -> None:
    dsn = reused.take().dsn
    with mqpg.connect(dsn) as mq:
        mq.create_topic("orders")
        mq.send("orders", 1)
    before = _backends(dsn)
    assert reused.take().dsn == dsn
    with mqpg.connect(dsn) as mq:
        assert mq.queries.topic_kind("orders") is None
        assert _backends(dsn) == before


@pytest.mark.parametrize(
    "change",
    [
        "create schema more",
        "alter table mqpg.topic add more int",
        "grant execute on all functions in schema mqpg to public",
        "update mqpg.broker set incarnation = 2",
        "do $$ begin execute format('alter database %I set work_mem = ''5MB''', current_database()); end $$",
    ],
)
def test_what_emptying_leaves_is_not_for_another_test(reused: Reused, change: str) -> None:
    dsn = reused.take().dsn
    with psycopg.connect(dsn) as connection:
        connection.execute(change.encode())
    assert reused.take().dsn != dsn


def test_sessions_that_are_still_open_are_ended(reused: Reused) -> None:
    with psycopg.connect(reused.take().dsn) as left:
        left.execute("create table public.held (id int)")
        reused.take()
        with pytest.raises(psycopg.OperationalError):
            left.execute("select")
