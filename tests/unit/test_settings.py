"""Settings from the environment."""

import re

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
    ("name", "value", "allowed"),
    [
        ("pool_max_size", 0, "must be a whole number of at least 1"),
        ("pool_max_size", 1.5, "must be a whole number of at least 1"),
        ("pool_max_size", None, "must be a whole number of at least 1"),
        ("poll_interval", "often", "must be a number of at least 0.01"),
        ("poll_interval", float("nan"), "must be a number of at least 0.01"),
        ("call_timeout", 0, "must be a number above 0, or none"),
        ("linger", 11, "must be a number of at least 0, at most 10"),
        ("listen", "perhaps", "must be one of 1, true, yes, on, 0, false, no, off"),
        ("application_name", 7, "must be text"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: object, allowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = re.escape(f"settings (MQPG_…): {name}: {allowed}") + "$"
    with pytest.raises(ConfigurationError, match=said):
        Settings.read(**{name: value})
    if isinstance(value, (int, float)) and name != "application_name":
        monkeypatch.setenv(f"MQPG_{name.upper()}", str(value))
        with pytest.raises(ConfigurationError, match=said):
            Settings.read()


def test_all_wrong_values_are_named_together() -> None:
    with pytest.raises(ConfigurationError, match=r"linger: .*; pool_timeout: "):
        Settings.read(linger=-1, pool_timeout="")


def test_values_of_the_environment_have_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("POOL_MAX_SIZE", "3"), ("LINGER", "2"), ("CALL_TIMEOUT", "None"), ("BATCHING", "OFF")):
        monkeypatch.setenv(f"MQPG_{name}", value)
    found = Settings.read(pool_timeout=2)
    assert (found.pool_max_size, found.linger, found.call_timeout, found.batching) == (3, 2.0, None, False)
    assert (found.pool_timeout, found.application_name) == (2.0, "mqpg")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown settings: pool_maxsize"):
        Settings.read(pool_maxsize=3)
