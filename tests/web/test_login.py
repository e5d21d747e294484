"""The users of a password file and of a proxy's header, and everybody who must not pass for one."""

import html
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import mqpg.web
from mqpg.connection.dsn import describe
from mqpg.errors import ConfigurationError
from mqpg.web import passwords
from tests.support.broker import Session
from tests.web.story import PASSWORD, Operator, Story, log_in, password_file, token_of, visiting

HEADER = "X-Forwarded-User"


@pytest.fixture
def stranger(dsn: str, story: Story, users: Path) -> Iterator[TestClient]:
    """Somebody at a dashboard with users, before the login."""
    with visiting(dsn, password_file=users, actions=True) as client:
        yield client


def test_nothing_is_shown_before_the_login(stranger: TestClient, story: Story, mq: Session) -> None:
    for path in ("/", "/topics", "/half-messages", f"/messages/{story.order}", "/missing"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert stranger.get("/live", headers={"HX-Request": "true"}).headers["hx-redirect"] == "/login"
    for action in ("pause", "commit"):
        assert stranger.post(f"/actions/{action}", data={"topic": "orders", "confirmed": "yes"}).status_code == 303
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False


def test_the_login_does_not_say_where_the_broker_is(stranger: TestClient, dsn: str) -> None:
    where = html.escape(describe(dsn))
    assert where not in stranger.get("/login").text
    assert log_in(stranger) == 303
    assert where in stranger.get("/").text


def test_login_and_logout(stranger: TestClient) -> None:
    assert log_in(stranger, password="wrong") == 401
    assert log_in(stranger, name="mallory") == 401
    assert log_in(stranger, name=" ") == 401
    assert log_in(stranger) == 303
    page = stranger.get("/topics").text
    assert "<span>ada</span>" in page
    cookie = stranger.cookies["mqpg_session"]
    assert stranger.post("/logout", data={"token": token_of(page)}).status_code == 303
    assert "mqpg_session" not in stranger.cookies
    stranger.cookies.set("mqpg_session", cookie)
    assert stranger.get("/topics").status_code == 303, "a stolen cookie is worth nothing after the logout"


def test_ended_sessions_are_forgotten(stranger: TestClient) -> None:
    """Their cookies are too old by then."""
    login = stranger.app.state.site.login  # type: ignore[attr-defined]
    login._ended = {"long ago": -1e9}
    assert log_in(stranger) == 303
    token = token_of(stranger.get("/topics").text)
    assert stranger.post("/logout", data={"token": token}).status_code == 303
    assert list(login._ended) == [token]


def test_a_session_ends_with_its_time(stranger: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_in(stranger) == 303
    assert stranger.get("/topics").status_code == 200
    monkeypatch.setattr("mqpg.web.login._SESSION_SECONDS", -1)
    assert stranger.get("/topics").status_code == 303


@pytest.mark.parametrize("scheme", ["http", "https", "proxy"])
def test_the_cookie(stranger: TestClient, scheme: str) -> None:
    headers = {"X-Forwarded-Proto": "https"} if scheme == "proxy" else {}
    client = TestClient(stranger.app, f"{scheme.replace('proxy', 'http')}://localhost", follow_redirects=False)
    first = client.get("/login", headers=headers)
    nonce = first.headers["set-cookie"].partition("=")[2].partition(";")[0]
    client.cookies.set("mqpg_login", nonce)
    data = {"token": token_of(first.text), "name": "ada", "password": PASSWORD}
    answer = client.post("/login", data=data, headers=headers)
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith("mqpg_session=")]
    for one in (first.headers["set-cookie"].lower(), cookie.lower()):
        assert "httponly" in one
        assert "samesite=strict" in one
        assert "path=/;" in one
        assert ("secure" in one) == (scheme != "http")


def test_a_forged_cookie_is_worth_nothing(stranger: TestClient, dsn: str, users: Path) -> None:
    assert log_in(stranger) == 303
    value = stranger.cookies["mqpg_session"]
    other = TestClient(mqpg.web.app(dsn, password_file=users), "http://localhost", follow_redirects=False)
    assert log_in(other) == 303
    of_another = other.cookies["mqpg_session"]
    payload, _, signature = value.partition(".")
    assert payload
    for forged in ("", "x", "a.b.c", value[:-1], "x" + value, f"{payload}x.{signature}", of_another):
        stranger.cookies.clear()
        stranger.cookies.set("mqpg_session", forged)
        assert stranger.get("/topics").status_code == 303, forged


def test_a_session_is_not_one_that_was_there_before(stranger: TestClient) -> None:
    """Otherwise somebody could give a visitor a session, and have it after the login."""
    assert log_in(stranger, "eve") == 303
    planted = stranger.cookies["mqpg_session"]
    token = token_of(stranger.get("/topics").text)
    assert log_in_again(stranger, "ada") == 303
    assert token_of(stranger.get("/topics").text) != token
    stranger.cookies.clear()
    stranger.cookies.set("mqpg_session", planted)
    assert "<span>eve</span>" in stranger.get("/topics").text


def log_in_again(client: TestClient, name: str) -> int:
    """Log in while a session is there, for which the page has no form."""
    client.cookies.set("mqpg_login", "nonce")
    return client.post("/login", data={"token": "nonce", "name": name, "password": PASSWORD}).status_code


def test_a_login_form_of_another_site_is_refused(stranger: TestClient) -> None:
    fields = {"name": "ada", "password": PASSWORD, "token": token_of(stranger.get("/login").text)}
    stranger.cookies.clear()
    assert stranger.post("/login", data=fields).status_code == 403
    stranger.get("/login")
    for token in ("", "é", fields["token"]):
        assert stranger.post("/login", data=fields | {"token": token}).status_code == 403


def test_guessing_is_stopped(stranger: TestClient) -> None:
    for _ in range(12):
        assert log_in_again(stranger, "ada") == 303, "who knows the password may often log in"
    stranger.cookies.clear()
    names = ["ada", "mallory"] * 5
    assert [log_in(stranger, name, f"guess {n}") for n, name in enumerate(names)] == [401] * 10
    assert log_in(stranger) == 429, "not even the right one"


def test_forms_carry_the_token_of_their_session(operators: Callable[..., Operator], mq: Session) -> None:
    ada, eve = operators("ada"), operators("eve")
    for token in (eve.token, "", "0" * 64, "é", None):
        for path in ("/actions/pause", "/logout"):
            data = {"confirmed": "yes", "topic": "orders"} | ({} if token is None else {"token": token})
            assert ada.client.post(path, data=data).status_code == 403
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False


def test_the_password_is_nowhere(stranger: TestClient, users: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert log_in(stranger, password=PASSWORD + "!") == 401
    assert log_in(stranger) == 303
    seen = [stranger.get(path).text for path in ("/", "/topics", "/workers")] + [str(dict(stranger.cookies))]
    seen += [caplog.text, *(repr(record.__dict__) for record in caplog.records), users.read_text()]
    assert PASSWORD not in html.unescape("".join(seen))


def test_a_mounted_dashboard(dsn: str, story: Story, users: Path) -> None:
    """An application around it may have a session of its own, and gets it back."""

    async def remember(request: Request) -> Response:
        request.session["own"] = "kept"
        return Response(str(dict(request.session)))

    inner = mqpg.web.app(dsn, password_file=users)
    routes = [Mount("/queue", inner), Route("/own", remember)]
    made = Starlette(routes=routes, middleware=[Middleware(SessionMiddleware, secret_key="x")])
    outer = TestClient(made, "http://localhost", follow_redirects=False)
    outer.get("/own")
    data = {"token": token_of(outer.get("/queue/login").text), "name": "ada", "password": PASSWORD}
    answer = outer.post("/queue/login", data=data)
    assert answer.headers["location"] == "/queue/"
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith("mqpg_session=")]
    assert "path=/queue;" in cookie.lower()
    page = outer.get("/queue/topics").text
    assert "(read-only)" in page, "without actions=True"
    assert outer.get("/own").text == "{'own': 'kept'}"
    data = {"token": token_of(page), "confirmed": "yes", "topic": "orders"}
    assert outer.post("/queue/actions/pause", data=data).status_code == 403
    assert outer.post("/queue/logout", data={"token": token_of(page)}).status_code == 303
    inner.state.site.source.close()


Visitors = Callable[..., TestClient]


@pytest.fixture
def behind(dsn: str, story: Story) -> Iterator[Visitors]:
    """Makes clients of a dashboard that takes the user's name from a header: `behind("10.0.0.7", "ada")`."""
    app = mqpg.web.app(dsn, user_header=HEADER, trusted_proxies=["10.0.0.0/24", "::1"], actions=True)

    def make(address: str, *names: str) -> TestClient:
        client = TestClient(app, "http://localhost", follow_redirects=False, client=(address, 4711))
        client.headers = type(client.headers)([(HEADER.encode(), name.encode()) for name in names])
        return client

    yield make
    app.state.site.source.close()


@pytest.mark.parametrize("address", ["10.0.0.7", "::1", "::ffff:10.0.0.7"])
def test_a_proxy_names_the_user_and_the_broker_keeps_the_name(
    behind: Visitors, mq: Session, story: Story, address: str
) -> None:
    ada = Operator(behind(address, "ada"))
    page = ada.client.get("/").text
    assert ">ada</span>" in page
    assert "Sign out" not in page, "the proxy has logged ada in"
    ada.do("commit", handle=story.parked, reason="paid")
    (event,) = [one for one in mq.call("trace", int(story.parked.split(".")[2])) if one.event == "settled"]
    assert event.detail["reason"] == "ada: paid"


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("10.0.1.7", ["ada"]),
        ("127.0.0.1", ["ada"]),
        ("::ffff:10.0.1.7", ["ada"]),
        ("testclient", ["ada"]),
        ("10.0.0.7", []),
        ("10.0.0.7", [""]),
        ("10.0.0.7", [" "]),
        ("10.0.0.7", ["mallory", "ada"]),  # the proxy has added its own, and keeps that of the browser
    ],
)
def test_whoever_sends_the_header_instead_of_the_proxy_gets_nothing(
    behind: Visitors, mq: Session, story: Story, address: str, names: list[str]
) -> None:
    client = behind(address, *names)
    for headers in ({}, {"X-Forwarded-For": "10.0.0.7"}, {"Forwarded": "for=10.0.0.7"}, {"X_Forwarded_User": "ada"}):
        for path in ("/", "/live", "/topics", f"/messages/{story.order}", "/missing"):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 403, path
            assert "orders" not in answer.text
        data = {"confirmed": "yes", "topic": "orders", "token": "x"}
        assert client.post("/actions/pause", data=data, headers=headers).status_code == 403
    assert client.get("/login").headers["location"] == "/", "no password counts here"
    assert client.post("/login", data={"name": "ada", "password": PASSWORD}).status_code == 303
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False


def test_another_site_cannot_send_a_form_through_the_proxy(behind: Visitors, mq: Session) -> None:
    """The browser is logged in at the proxy, which names the user to whatever page sends the form."""
    ada, eve = behind("10.0.0.7", "ada"), behind("10.0.0.7", "eve")
    data = {"confirmed": "yes", "topic": "orders"}
    for token in ("", "x", token_of(eve.get("/topics/orders").text)):
        assert ada.post("/actions/pause", data=data | {"token": token}).status_code == 403
    data["token"] = token_of(ada.get("/topics/orders").text)
    assert ada.post("/actions/pause", data=data, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False
    assert ada.post("/actions/pause", data=data).status_code == 200


def test_a_hostile_name_is_shown_as_text(behind: Visitors, story: Story, mq: Session) -> None:
    client = behind("10.0.0.7", "<script>alert(1)</script>\u202e ü")
    page = client.get("/topics").text
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "ü" in page


def test_what_cannot_work_is_refused(dsn: str, users: Path) -> None:
    for wrong, match in (
        ({"actions": True}, "need users"),
        ({"password_file": users, "user_header": HEADER}, "not both"),
        ({"trusted_proxies": ["::1"]}, "name the header"),
        ({"user_header": HEADER, "trusted_proxies": ["proxy.example"]}, "an address or a network"),
        ({"user_header": HEADER, "trusted_proxies": ["10.0.0.1/8"]}, "an address or a network"),
        ({"password_file": users / "missing"}, "cannot read"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            mqpg.web.app(dsn, **wrong)


def test_a_password_file(tmp_path: Path) -> None:
    file = tmp_path / "users"
    passwords.add_user(file, "ada", "first ü")
    assert file.stat().st_mode & 0o777 == 0o600
    passwords.add_user(file, "eve", "second")
    file.write_text(f"# operators\n\n{file.read_text()}")
    passwords.add_user(file, "ada", "third")
    assert file.read_text().startswith("# operators\n")
    users = passwords.read_users(file)
    assert list(users) == ["eve", "ada"]
    assert [passwords.is_right(word, users["ada"]) for word in ("third", "first ü", "", "third ")] == [
        True,
        *[False] * 3,
    ]
    for name in ("", "a:b", "a\nb", " a", "a" * 61):
        with pytest.raises(ConfigurationError, match="a name has"):
            passwords.add_user(file, name, "x")
    with pytest.raises(ConfigurationError, match="is empty"):
        passwords.add_user(file, "bob", "")


@pytest.mark.parametrize("line", ["", "ada", "ada:", "ada:secret", "ada:$2y$10$x", ":$scrypt$ln=4,r=8,p=1$QQ$QQ"])
def test_a_password_file_that_says_something_else(tmp_path: Path, line: str) -> None:
    file = password_file(tmp_path) if line else tmp_path / "users"
    with file.open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(ConfigurationError, match=r"line 4|has no user"):
        passwords.read_users(file)
