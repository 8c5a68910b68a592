from __future__ import annotations

import argparse
import json

import pytest

from tvmbuild.cli import schema


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
