"""What drivers say of their connections, which none of the other tests has."""

from types import SimpleNamespace

import pytest

from mqpg.user_tables.drivers import commits_each_statement, is_autocommit


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("name", ["mysqlclient", "asyncpg"])
def test_drivers_that_must_be_asked_for_autocommit(name: str, commits: bool) -> None:
    """A ledger row would be committed although the transaction fails later."""
    stubs = {
        "mysqlclient": SimpleNamespace(get_autocommit=lambda: commits),
        "asyncpg": SimpleNamespace(is_in_transaction=lambda: not commits, is_closed=lambda: False),
    }
    assert is_autocommit(stubs[name]) is commits
    assert commits_each_statement(stubs[name]) is commits


def test_of_a_driver_that_says_nothing_nothing_is_assumed() -> None:
    assert not is_autocommit(SimpleNamespace())
    assert not commits_each_statement(SimpleNamespace())
