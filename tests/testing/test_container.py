"""The container of MQPG_TEST_CONTAINERS=1, as far as it can be looked at without Docker."""

import pytest

from tests.fixtures.server import DEFAULT_IMAGE, SETTINGS, postgres_container


def test_the_container_is_made_without_a_warning_and_has_the_settings_of_the_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Warnings are errors here, also that of an import from a deprecated place."""
    monkeypatch.setattr("testcontainers.core.container.DockerClient", lambda **_: None)
    container = postgres_container(DEFAULT_IMAGE)
    assert container.image == DEFAULT_IMAGE
    words = container._command.split()
    assert words[0] == "postgres"
    assert {f"{name}={value}" for name, value in SETTINGS.items()} == set(words[2::2])
    assert set(words[1::2]) == {"-c"}
    container._docker = None


@pytest.mark.docker("daemon")
def test_the_container_starts() -> None:
    import psycopg

    with postgres_container(DEFAULT_IMAGE) as container, psycopg.connect(container.get_connection_url()) as connection:
        assert connection.execute("show max_connections").fetchone() == (str(SETTINGS["max_connections"]),)
