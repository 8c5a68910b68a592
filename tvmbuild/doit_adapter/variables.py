"""The variables `tune=…` and `strict=…`, from doit's command line or otherwise from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from doit import doit_cmd

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.steps import Settings, TuneMode
from tvmbuild.errors import TvmbuildError

STRICT = {"0": False, "1": True}
VARIABLES: dict[str, tuple[str, ...]] = {"tune": get_args(TuneMode), "strict": tuple(STRICT)}


def read_settings() -> Settings:
    """Return the settings of this run of doit. Raises TvmbuildError for an unknown variable or value."""
    return make_settings(vars(doit_cmd)["_CMDLINE_VARS"] or {})


def make_settings(given: Mapping[str, str]) -> Settings:
    """Return the settings from these variables and the environment. Raises TvmbuildError as `read_settings` does."""
    for name, value in given.items():
        check_variable(name, value)
    tune = _read("tune", given, "missing")
    return Settings(tune=cast("TuneMode", tune), strict=STRICT[_read("strict", given, "0")])


def split_words(words: Sequence[str]) -> tuple[list[str], Settings]:
    """Return the words without `=`, and the settings from the words `name=value`.

    Raises TvmbuildError as `read_settings` does.
    """
    given = {name: value for name, equals, value in (word.partition("=") for word in words) if equals}
    return [word for word in words if "=" not in word], make_settings(given)


def check_variable(name: str, value: str) -> None:
    """Raise TvmbuildError for an unknown variable, or for a value that the variable does not accept."""
    if name not in VARIABLES:
        near = find_nearest(name, VARIABLES)
        hint = suggest(f"{near}=…").strip() if near else f"Known are {_list_variables()}."
        raise TvmbuildError(f"unknown variable {name}={value}", hint)
    _check_value(f"{name}=", name, value)


def _read(name: str, given: Mapping[str, str], default: str) -> str:
    if name in given:
        return given[name]
    variable = f"TVMBUILD_{name.upper()}"
    value = os.environ.get(variable, default)
    _check_value(f"{variable}=", name, value)
    return value


def _check_value(shown: str, name: str, value: str) -> None:
    choices = VARIABLES[name]
    if value not in choices:
        meant = suggest(find_nearest(value, choices))
        raise TvmbuildError(f"{shown}{value} is not valid", f"{meant}{name} is one of {', '.join(choices)}.")


def _list_variables() -> str:
    return " and ".join(f"{name}={'|'.join(choices)}" for name, choices in VARIABLES.items())
