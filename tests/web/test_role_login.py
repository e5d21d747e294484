"""The login as a role of the database: PostgreSQL verifies it, and its grants decide what it may do."""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import mqpg.web
from mqpg.errors import ConfigurationError, ConnectionFailed
from mqpg.web import role_login
from mqpg.web.role_login import RoleLogin
from mqpg.web.security import Security
from tests.support.broker import Session
from tests.support.waiting import eventually
from tests.web.story import Operator, Story, log_in, token_of

SECRET = "a long pass'word\\"


@pytest.fixture
def app(dsn: str, story: Story) -> Iterator[Starlette]:
    """A dashboard at which roles log in. Its DSN names a role that does not exist."""
    made = mqpg.web.app(psycopg.conninfo.make_conninfo(dsn, user="nobody", password=""), login="role", actions=True)
    yield made
    made.state.site.source.close()


@pytest.fixture
def visitors(app: Starlette, roles: Callable[..., str], mq: Session) -> Iterator[Callable[..., TestClient]]:
    """Makes a role with some rights, which has logged in: `visitors("ada", "auditor")`."""
    clients: list[TestClient] = []

    def make(name: str, *rights: str) -> TestClient:
        role = conninfo_to_dict(roles(name, SECRET.replace("'", "''")))["user"]
        for right in rights:
            if right == "receive":
                mq.call("grant_receive", "*", "*", role)
            else:
                mq.call(f"grant_{right}", role)
        client = TestClient(app, "http://localhost", follow_redirects=False)
        clients.append(client)
        assert log_in(client, str(role), SECRET) == 303
        return client

    yield make
    for client in clients:
        leave(client)


def leave(client: TestClient) -> None:
    page = client.get("/missing").text
    if 'name="token"' in page:
        assert client.post("/logout", data={"token": token_of(page)}).status_code == 303


def role_of(mq: Session, name: str) -> str:
    return f"mqpg_web_{name}_{mq.pid}"


def confirmed(client: TestClient, action: str, **fields: object) -> tuple[int, str]:
    """What the page says to somebody who has pressed both buttons."""
    data = {"token": token_of(client.get("/topics").text), "confirmed": "yes"} | fields
    answer = client.post(f"/actions/{action}", data=data)
    return answer.status_code, html.unescape(answer.text)


def test_an_operator_may_and_the_broker_keeps_the_role(
    visitors: Callable[..., TestClient], story: Story, mq: Session
) -> None:
    ada = visitors("ada", "operator", "auditor", "receive")
    assert ada.get("/").status_code == 200
    Operator(ada).do("commit", handle=story.parked, reason="paid")
    Operator(ada).do("pause", topic="orders")
    Operator(ada).do("redrive", group="billing", topic="orders", scope="all")
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is True
    (event,) = [one for one in mq.call("trace", int(story.parked.split(".")[2])) if one.event == "settled"]
    role = role_of(mq, "ada")
    assert event.detail == {"by": f"role {role}", "reason": f"{role}: paid"}
    assert f"role {role}" in ada.get(f"/half-messages/{story.parked}").text


def test_an_auditor_may_look_and_is_told_what_is_missing(
    visitors: Callable[..., TestClient], story: Story, mq: Session
) -> None:
    eve = visitors("eve", "auditor")
    assert eve.get("/").status_code == 200
    assert story.parked in eve.get("/half-messages").text
    for action, fields in (("commit", {"handle": story.parked, "reason": "why not"}), ("pause", {"topic": "orders"})):
        status, page = confirmed(eve, action, **fields)
        assert status == 403
        assert "Your role may not do this" in page
        assert f"Missing: mqpg grant operator {role_of(mq, 'eve')}" in page
    assert mq.scalar("select count(*) from mqpg.half_parked") == 1
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False
    answer = eve.get(f"/messages/{story.order}")
    assert answer.status_code == 403, "the DSN's role is not asked where the own one may not read"
    assert f"mqpg grant receive '*' '*' {role_of(mq, 'eve')}" in html.unescape(answer.text)
    assert '"amount"' not in answer.text


def test_a_right_of_another_topic_is_named_by_the_broker(
    visitors: Callable[..., TestClient], story: Story, mq: Session
) -> None:
    eve = visitors("eve", "auditor")
    mq.call("grant_receive", "news", "returns", role_of(mq, "eve"))
    answer = eve.get(f"/messages/{story.order}")
    assert answer.status_code == 403
    assert "mqpg.grant_receive(" in answer.text


def test_a_role_without_rights_sees_nothing(visitors: Callable[..., TestClient], story: Story, mq: Session) -> None:
    bob = visitors("bob")
    for path in ("/", "/live", "/topics", "/groups", "/half-messages", "/dead-letters/billing/orders", "/workers"):
        answer = bob.get(path)
        assert answer.status_code == 403, path
        assert "Your role may not do this" in answer.text
        assert f"mqpg grant auditor {role_of(mq, 'bob')}" in answer.text, path
        assert "news" not in answer.text


def test_reports_are_for_roles_that_may_see_audits(
    dsn: str, story: Story, roles: Callable[..., str], mq: Session, tmp_path: Path
) -> None:
    (tmp_path / "one.html").write_text("<title>mqpg audit: valid</title>")
    made = mqpg.web.app(dsn, login="role", reports=tmp_path)
    for name, status in (("ada", 200), ("bob", 403)):
        roles(name)
        if status == 200:
            mq.call("grant_auditor", role_of(mq, name))
        client = TestClient(made, "http://localhost", follow_redirects=False)
        assert log_in(client, role_of(mq, name), "x") == 303
        assert [client.get(path).status_code for path in ("/audits", "/audits/one.html")] == [status] * 2
        leave(client)


def test_each_role_sees_the_overview_with_its_own_rights(visitors: Callable[..., TestClient], mq: Session) -> None:
    """What is read once for all who look is read once for each role."""
    assert visitors("ada", "auditor").get("/").status_code == 200
    assert visitors("bob").get("/").status_code == 403


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("ada", ""), ("nobody", SECRET), ("ada", "\x00")])
def test_a_wrong_password_is_refused(
    app: Starlette, roles: Callable[..., str], mq: Session, name: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)  # which libpq would take instead of an empty one
    roles("ada", SECRET.replace("'", "''"))
    client = TestClient(app, "http://localhost", follow_redirects=False)
    assert log_in(client, role_of(mq, name), password) == 401
    assert client.get("/topics").status_code == 303


def test_guessing_is_stopped(app: Starlette, roles: Callable[..., str], mq: Session) -> None:
    roles("ada", SECRET.replace("'", "''"))
    client = TestClient(app, "http://localhost", follow_redirects=False)
    for _ in range(12):
        assert log_in(client, role_of(mq, "ada"), SECRET) == 303, "who knows the password may often log in"
        leave(client)
    assert [log_in(client, role_of(mq, "ada"), f"guess {n}") for n in range(11)] == [401] * 10 + [429]
    assert log_in(client, role_of(mq, "ada"), SECRET) == 429, "not even the right one"


def test_guessing_is_stopped_where_another_host_is_away(
    dsn: str, story: Story, roles: Callable[..., str], mq: Session
) -> None:
    """The first host refuses the password, and what is known in the end is that the last one is away."""
    roles("ada")
    given = conninfo_to_dict(dsn)
    hosts = {"host": f"{given['host']},{given['host']}", "port": f"{given['port']},1"}
    made = mqpg.web.app(psycopg.conninfo.make_conninfo(dsn, **hosts), login="role")
    client = TestClient(made, "http://localhost", follow_redirects=False)
    assert [log_in(client, role_of(mq, "ada"), f"guess {n}") for n in range(11)] == [503] * 10 + [429]


def connections(mq: Session, name: str) -> int:
    return int(mq.scalar("select count(*) from pg_stat_activity where usename = %s", role_of(mq, name)))


def test_the_connections_end_with_the_session(visitors: Callable[..., TestClient], mq: Session) -> None:
    ada = visitors("ada", "operator", "auditor")
    token = token_of(ada.get("/topics").text)
    assert connections(mq, "ada") >= 1
    cookie = ada.cookies["mqpg_session"]
    assert ada.post("/logout", data={"token": token}).status_code == 303
    eventually(lambda: connections(mq, "ada") == 0)
    ada.cookies.set("mqpg_session", cookie)
    assert ada.get("/topics").status_code == 303
    data = {"token": token, "confirmed": "yes", "topic": "orders"}
    assert ada.post("/actions/pause", data=data).status_code == 303
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False


def test_what_still_runs_does_not_connect_again(
    app: Starlette, visitors: Callable[..., TestClient], mq: Session
) -> None:
    ada = visitors("ada", "auditor")
    view = app.state.site.security.session(ada.cookies["mqpg_session"]).view
    view.source.client()
    leave(ada)
    eventually(lambda: connections(mq, "ada") == 0)
    with pytest.raises(ConnectionFailed, match="this source is closed"):
        view.source.client()


def test_a_session_ends_with_its_time(
    dsn: str, story: Story, roles: Callable[..., str], mq: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqpg.web.application.SESSION_SECONDS", 0.5)
    made = mqpg.web.app(dsn, login="role")
    roles("ada", "x")
    mq.call("grant_auditor", role_of(mq, "ada"))
    client = TestClient(made, "http://localhost", follow_redirects=False)
    assert log_in(client, role_of(mq, "ada"), "x") == 303
    eventually(lambda: client.get("/topics").status_code == 303)
    eventually(lambda: connections(mq, "ada") == 0)


def test_a_session_that_nobody_uses_ends_too(dsn: str, roles: Callable[..., str], mq: Session) -> None:
    roles("ada", "x")
    login, role = RoleLogin(dsn, 0.2), role_of(mq, "ada")
    mq.call("grant_auditor", role)
    views = [view for _ in range(2) if (view := login.prove(role, "x"))]
    for n, view in enumerate(views):
        assert view.source.rows("select 1 as one") == [{"one": 1}]
        login.keep(f"session {n}", role, view)
    eventually(lambda: connections(mq, "ada") == 0)
    for view in views:
        with pytest.raises(ConnectionFailed):
            view.source.client()


def test_one_session_too_many_ends_the_oldest(
    visitors: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_login, "_MOST_SESSIONS", 2)
    clients = [visitors(name, "auditor") for name in ("ada", "bob", "eve")]
    assert [one.get("/topics").status_code for one in clients] == [303, 200, 200]


def test_one_role_does_not_end_the_sessions_of_others(
    app: Starlette, visitors: Callable[..., TestClient], mq: Session
) -> None:
    ada, clients = visitors("ada", "auditor"), [visitors("eve", "auditor")]
    for _ in range(5):
        clients.append(TestClient(app, "http://localhost", follow_redirects=False))
        assert log_in(clients[-1], role_of(mq, "eve"), SECRET) == 303
    assert [one.get("/topics").status_code for one in clients] == [303] + [200] * 5
    assert ada.get("/topics").status_code == 200
    for one in clients:
        leave(one)


def test_ended_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their cookies are too old anyway."""
    security = Security("x")
    sessions = [one for _ in range(3) if (one := security.session(security.log_in("ada", "x")))]
    for session in sessions[:2]:
        security.end(session)
    assert list(security._ended) == [one.nonce for one in sessions[:2]]
    monkeypatch.setattr("mqpg.web.security.SESSION_SECONDS", 0)
    security.end(sessions[2])
    assert list(security._ended) == [sessions[2].nonce]


def test_the_password_is_nowhere(
    visitors: Callable[..., TestClient], caplog: pytest.LogCaptureFixture, app: Starlette, mq: Session
) -> None:
    caplog.set_level(logging.DEBUG)
    ada = visitors("ada", "operator", "auditor")
    stranger = TestClient(app, "http://localhost", follow_redirects=False)
    assert log_in(stranger, role_of(mq, "ada"), "not-the-" + SECRET) == 401
    assert f"login of role '{role_of(mq, 'ada')}' failed: " in caplog.text
    seen = [ada.get(path).text for path in ("/", "/topics", "/workers")] + [caplog.text, str(dict(ada.cookies))]
    for record in caplog.records:
        seen.append(repr(record.__dict__))
    assert "pass'word" not in html.unescape("".join(seen))


def test_forms_carry_the_token_of_their_session(visitors: Callable[..., TestClient], mq: Session) -> None:
    ada, eve = visitors("ada", "operator", "auditor"), visitors("eve", "operator", "auditor")
    for token in (token_of(eve.get("/topics").text), "", "0" * 64):
        data = {"confirmed": "yes", "topic": "orders", "token": token}
        assert ada.post("/actions/pause", data=data).status_code == 403
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False
    fields = {"name": role_of(mq, "ada"), "password": SECRET, "token": token_of(ada.get("/topics").text)}
    ada.cookies.clear()
    assert ada.post("/login", data=fields).status_code == 403


def test_the_login_asks_for_a_role(app: Starlette, dsn: str) -> None:
    client = TestClient(app, "http://localhost", follow_redirects=False)
    page = client.get("/login").text
    assert "Role of the database" in page
    assert conninfo_to_dict(dsn)["dbname"] not in page
    assert client.get("/topics").headers["location"] == "/login"


def test_a_mounted_dashboard(dsn: str, story: Story, roles: Callable[..., str], mq: Session) -> None:
    roles("ada", "x")
    mq.call("grant_auditor", role_of(mq, "ada"))
    inner = mqpg.web.app(dsn, login="role")
    outer = TestClient(Starlette(routes=[Mount("/queue", inner)]), "http://localhost", follow_redirects=False)
    token = token_of(outer.get("/queue/login").text)
    data = {"token": token, "name": role_of(mq, "ada"), "password": "x"}
    assert outer.post("/queue/login", data=data).headers["location"] == "/queue/"
    page = outer.get("/queue/topics").text
    assert "(read-only)" in page, "without actions=True"
    data = {"token": token_of(page), "confirmed": "yes", "topic": "orders"}
    assert outer.post("/queue/actions/pause", data=data).status_code == 403
    assert outer.post("/queue/logout", data={"token": token_of(page)}).status_code == 303


def test_what_cannot_work_is_refused(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="leave it out"):
        mqpg.web.app(dsn, login="role", password="x")
    with pytest.raises(ConfigurationError, match="must be one of password, role"):
        mqpg.web.app(dsn, login="anything")  # type: ignore[arg-type]


def test_a_server_that_asks_for_no_password_or_is_away(own_server: Any) -> None:
    """Such a server would let anybody in under any name."""
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        conn.execute("create role ada login password 'x'")
        (rules,) = conn.execute("show hba_file").fetchone() or ("",)
    made = mqpg.web.app(own_server.dsn, login="role", actions=True)
    client = TestClient(made, "http://localhost", follow_redirects=False)
    own_server.server.stop()
    token = token_of(client.get("/login").text)
    away = client.post("/login", data={"token": token, "name": "ada", "password": "x"})
    assert away.status_code == 503
    port = conninfo_to_dict(own_server.dsn)["port"]
    assert str(port) not in away.text, "where the broker is, is nothing for strangers"
    Path(rules).write_text("local all all trust\nhost all all all trust\n")
    own_server.server.start()
    token = token_of(client.get("/login").text)
    answer = client.post("/login", data={"token": token, "name": "ada", "password": "x"})
    assert answer.status_code == 403
    assert "without asking for a password" in answer.text
    assert client.get("/topics").status_code == 303
