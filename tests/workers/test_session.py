"""The connections of a worker notice a host that no longer answers."""

import psycopg
import pytest

from mqpg.workers import session


def test_the_look_for_a_pooler_gives_up_as_the_worker_itself_does(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second connection looks for a pooler, where the server is another one than the connection says."""
    seen: list[dict[str, str]] = []

    def another_backend(conn: psycopg.Connection) -> int:
        if all(known["name"] != str(id(conn)) for known in seen):
            seen.append({"name": str(id(conn))} | conn.info.get_parameters())
        return -1 - [known["name"] for known in seen].index(str(id(conn)))

    monkeypatch.setattr(session, "_backend", another_backend)
    session.connect(dsn, "keeper").close()
    first, second = seen
    assert {"connect_timeout", "keepalives_idle"} <= first.keys()
    assert {key: value for key, value in second.items() if key != "name"} == {
        key: value for key, value in first.items() if key != "name"
    }
