"""The role that calls, which functions that run as the owner ask for."""

from typing import Any

import psycopg
import pytest

from tests.support.roles import Roles

Connection = psycopg.Connection[Any]


@pytest.mark.parametrize("kind", ["session", "set role", "set local role", "session authorization", "definer"])
def test_the_caller_is_the_role_that_calls(db: Connection, roles: Roles, kind: str) -> None:
    caller, owner = roles("caller").name, roles("owner").name
    db.execute("create function public.caller() returns name security definer language sql as 'select mqpg._caller()'")
    db.execute(
        f"grant usage on schema mqpg to {caller}, {owner};"
        f"grant execute on function mqpg._caller(), mqpg._is_direct(), mqpg._refuse_checker() to {caller}, {owner};"
        f"alter function public.caller() owner to {owner}".encode()
    )
    asked, expected = "select mqpg._caller()", caller
    with db.transaction(force_rollback=True):
        if kind == "session":
            expected = db.execute("select session_user").fetchone()[0]  # type: ignore[index]
        elif kind == "session authorization":
            db.execute(f"set local session authorization {caller}".encode())
        elif kind == "set role":
            db.execute(f"set role {caller}".encode())
        else:
            db.execute(f"set local role {caller}".encode())
        if kind == "definer":
            asked = "select public.caller()"
        assert db.execute(asked).fetchone() == (expected,)
