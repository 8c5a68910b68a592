from __future__ import annotations

import argparse
import json

import pytest

from tvmbuild.cli import schema
from tvmbuild.errors import TvmbuildError


@pytest.mark.parametrize("name", ["models", "targets"])
def test_prints_the_schema(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    schema.add_arguments(parser)
    assert schema.run(parser.parse_args([name])) == 0
    assert json.loads(capsys.readouterr().out)["title"] == f"tvmbuild {name}.yaml"


def test_refuses_another_file() -> None:
    parser = argparse.ArgumentParser()
    schema.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["records"])


def test_prints_the_keys_of_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    schema.add_arguments(parser)
    assert schema.run(parser.parse_args(["targets", "tune"])) == 0
    assert "trials_per_task (default: 64)\n    Most measurements for each Task." in capsys.readouterr().out


def test_an_unknown_part_is_answered_with_the_known_ones() -> None:
    parser = argparse.ArgumentParser()
    schema.add_arguments(parser)
    with pytest.raises(TvmbuildError, match=r"models\.yaml has no part tune") as caught:
        schema.run(parser.parse_args(["models", "tune"]))
    assert "boxes, calibration" in str(caught.value.hint)
