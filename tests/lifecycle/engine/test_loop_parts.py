"""The settings of a loop: in which forms they may be given, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.engine.loop_parts import settings_reader
from lifecycle.errors import ArgumentError, SettingsError
from lifecycle.settings import Settings


def test_a_function_may_return_a_dict_of_settings() -> None:
    given = {"retry_interval": 5}
    read = settings_reader(lambda: given, {"max_retries": 7})

    assert (read().retry_interval, read().max_retries) == (5, 7)
    given["retry_interval"] = 6
    assert read().retry_interval == 6


@pytest.mark.parametrize("wrong", [None, [], 5, "settings"])
def test_a_function_that_returns_no_settings_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"what settings\(\) returned is"):
        settings_reader(lambda: wrong, {})()


def test_an_unknown_setting_of_a_function_is_refused() -> None:
    with pytest.raises(SettingsError, match="colour is not a setting"):
        settings_reader(lambda: {"colour": "red"}, {})()


@pytest.mark.parametrize("wrong", [[], 0, "", False])
def test_an_empty_value_that_is_no_dict_is_no_settings(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="settings is"):
        settings_reader(wrong, {})


def test_retries_that_are_none_count_as_not_given() -> None:
    read = settings_reader({"max_retries": 9}, {"max_retries": None, "retry_interval": None})

    assert read() == settings_reader({"max_retries": 9}, {})()
    assert settings_reader(None, {"max_retries": None})() == Settings()
