"""How connections to the broker are made: what the DSN says, and what is added to it."""

from mqpg.connection.options import KEEPALIVE, connect_options, transport
from mqpg.connection.settings import Settings


def test_what_the_dsn_says_takes_precedence() -> None:
    assert transport("", 5) == {"connect_timeout": 5, "client_encoding": "utf8", **KEEPALIVE}
    assert transport("connect_timeout=3 keepalives_idle=1", 5).keys() == (
        KEEPALIVE.keys() - {"keepalives_idle"} | {"client_encoding"}
    )


def test_of_several_hosts_the_primary_is_meant() -> None:
    assert transport("host=a,b")["target_session_attrs"] == "read-write"
    assert transport("hostaddr=10.0.0.1,10.0.0.2")["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in transport("host=a")
    assert "target_session_attrs" not in transport("host=a,b target_session_attrs=any")


def test_clients_use_it() -> None:
    assert connect_options("postgresql://a:1,b:2/x", Settings())["target_session_attrs"] == "read-write"
