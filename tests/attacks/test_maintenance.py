"""Maintenance of a role's table runs its functions in the session of a superuser.

It gives the role no rights of mqpg.
"""

import psycopg
import pytest

from tests.support.company import Company, Connection, value

# An index and a materialized view call `innocent`, and that calls what is replaced later.
PLANT = """
create schema {role};
create table {role}.loot (body text);
create function {role}.steal() returns int language plpgsql as $$ begin return 1; end $$;
create function {role}.innocent(i int) returns int language plpgsql immutable as $$
begin
    return {role}.steal();
end $$;
create table {role}.t (i int);
create index on {role}.t ({role}.innocent(i));
insert into {role}.t select generate_series(1, 10);
create materialized view {role}.mv as select {role}.innocent(1);
create or replace function {role}.steal() returns int language plpgsql as $$ begin {attack}; return 1; end $$;
"""
ATTACKS = {
    "read": "insert into {role}.loot select payload::text from mqpg.find_by_key('theirs', 'k')",
    "send": "perform mqpg.send('theirs', '\"forged\"'::text)",
    "receive": "insert into {role}.loot select payload::text from mqpg.receive('theirs', 'theirs')",
    "prepare": "perform mqpg.prepare('theirs', '1'::text, 'theirs')",
}


@pytest.fixture(params=sorted(ATTACKS))
def planter(company: Company, request: pytest.FixtureRequest) -> Connection:
    """A session of an application that may call these functions, though not for the topic `theirs`."""
    role = company.application()
    company.boss.execute(f'grant create on database "{company.boss.info.dbname}" to {role}')
    session = company.session(role)
    attack = ATTACKS[request.param].format(role=role)
    session.execute(PLANT.format(role=role, attack=attack))
    return session


@pytest.mark.parametrize(
    "command", ["analyze {role}.t", "reindex table {role}.t", "refresh materialized view {role}.mv"]
)
def test_maintenance_by_a_superuser_lends_no_rights(company: Company, planter: Connection, command: str) -> None:
    role = planter.info.user
    before = value(company.boss, "select count(*) from mqpg.commit_log")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="security-restricted operation"):
        company.boss.execute(command.format(role=role))
    assert value(planter, f"select count(*) from {role}.loot") == 0
    assert value(company.boss, "select count(*) from mqpg.commit_log") == before
