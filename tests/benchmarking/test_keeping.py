"""The kept choice of operators in floats: found, taken from the file, refused, searched again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from uneven_net import SAMPLES, make_net

from tvmbuild.base.specs import Accuracy
from tvmbuild.benchmarking.accuracy import make_judge
from tvmbuild.benchmarking.keeping import Keeping
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.preparing.keep.choose import Choice
from tvmbuild.preparing.keep.reduced import QuantisedModel
from tvmbuild.preparing.quantisers.by_onnxruntime import quantise
from tvmbuild.preparing.quantisers.quantiser import Work
from tvmbuild.records.conflicts import ConflictedRecordsError

TAKES = ModelInputs("net", (TensorInfo("x", (1, 3, 16, 16), "float32"),), None)
Search = Callable[[float], tuple[Any, Choice]]


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "records/kept/int8/0123456789abcdef.json"


@pytest.fixture
def search(tmp_path: Path, known: Path) -> Search:
    """Return a function that searches for the operators that keep an rms."""
    np.savez(tmp_path / "x.npz", x=np.concatenate([each["x"] for each in SAMPLES]))
    onnx.save(make_net(), tmp_path / "net.onnx")

    def run(rms: float) -> tuple[Any, Choice]:
        accuracy = Accuracy("inputs", ("x.npz",), rms=rms)
        judge = make_judge(accuracy, TAKES, tmp_path / "net.onnx", [tmp_path / "x.npz"])
        quantised = quantise(Work(make_net(), SAMPLES, ()))
        reduced = QuantisedModel(quantised, make_net())
        choice = Keeping("net", accuracy, judge, SAMPLES, known).choose(reduced)
        return reduced.build(choice.nodes), choice

    return run


def test_a_choice_is_found_once(search: Search, known: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto, choice = search(0.03)
    assert [group.name for group in choice.groups] == ["second"]
    assert choice.describe().startswith("`keep: auto` keeps 1 of 3 groups in floats, ")
    assert not choice.before.is_enough
    told, kept = capsys.readouterr().out, known.read_bytes()
    assert "quantising each group alone" in told
    again, same = search(0.03)
    assert "quantising each group alone" not in (told := capsys.readouterr().out)
    assert f"the operators in floats come from {known}" in told
    assert (again.SerializeToString(), same.nodes, known.read_bytes()) == (
        proto.SerializeToString(),
        choice.nodes,
        kept,
    )


def test_a_kept_choice_that_is_not_enough_any_more(search: Search, known: Path, capsys: Any) -> None:
    search(0.03)
    capsys.readouterr()
    _, choice = search(1e-3)
    told = capsys.readouterr().out
    assert f"the operators in {known} are not enough any more: rms is " in told
    assert choice.after.is_enough
    assert len(choice.groups) > 1


@pytest.mark.parametrize("text", ["", "[]", '{"format": 9, "groups": []}', '{"format": 1, "groups": [{"nodes": [5]}]}'])
def test_a_damaged_file_counts_as_absent(search: Search, known: Path, text: str) -> None:
    known.parent.mkdir(parents=True)
    known.write_text(text)
    assert [group.name for group in search(0.03)[1].groups] == ["second"]


def test_both_sides_of_a_merge_are_not_lost(search: Search, known: Path) -> None:
    known.parent.mkdir(parents=True)
    known.write_text("<<<<<<< ours\n{}\n=======\n{}\n>>>>>>> theirs\n")
    with pytest.raises(ConflictedRecordsError, match="git has left both sides of a merge in it"):
        search(0.03)


def test_an_accuracy_that_the_float_model_misses_is_told(search: Search, known: Path) -> None:
    with pytest.raises(TvmbuildError, match=r"^net is not accurate enough, whichever .*: rms is 0, allowed is -1"):
        search(-1.0)
    assert not known.exists()


def test_a_network_that_is_accurate_keeps_nothing(search: Search) -> None:
    _, choice = search(10.0)
    assert choice.nodes == frozenset()
    assert choice.describe().startswith("`keep: auto` keeps nothing in floats: rms 0.")
