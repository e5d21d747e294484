"""Settings from the environment."""

import pytest

from mqpg.connection.settings import Settings
from mqpg.errors import ConfigurationError


def test_prepared_statements_are_switched_off_by_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_PREPARE_THRESHOLD", "none")
    assert Settings.read().prepare_threshold is None


def test_listening_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_LISTEN", "false")
    assert Settings.read().listen is False
    assert Settings.read(listen=True).listen is True


@pytest.mark.parametrize(
    ("given", "said"), [({"pool_max_size": 0}, "pool_max_size"), ({"poll_interval": "often"}, "poll_interval")]
)
def test_a_wrong_value_is_named(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Settings.read(**given)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown settings: pool_maxsize"):
        Settings.read(pool_maxsize=3)
