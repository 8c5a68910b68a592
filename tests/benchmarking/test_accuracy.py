"""Package and original model on real inputs: the reading of samples, and the counts."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from benchmark_results import make_result
from PIL import Image
from report_cells import cell_steps, only, write_built
from small_package import build_package
from uneven_net import SAMPLES, make_net

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.specs import Accuracy, BenchmarkOptions, Tolerance
from tvmbuild.base.steps import BenchmarkStep, Step
from tvmbuild.benchmarking.accuracy import Arrays, Run, compare_samples, judge_file_too, make_judge
from tvmbuild.benchmarking.agreement import Agreement, check_agreement, read_agreement
from tvmbuild.benchmarking.real_inputs import RememberedSamples, run_each
from tvmbuild.benchmarking.results import read_result
from tvmbuild.errors import TvmbuildError, VerdictError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import ModelInputs, PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.samples import list_samples
from tvmbuild.preparing.quantisers.by_onnxruntime import quantise
from tvmbuild.preparing.quantisers.quantiser import Work
from tvmbuild.preparing.reference import open_onnx
from tvmbuild.report.html_page import write_html
from tvmbuild.report.text import write_markdown
from tvmbuild.stages.benchmark import make_trial

TENSORS = (TensorInfo("x", (2, 3), "float32"), TensorInfo("n", (1,), "int64"))
COVERAGE = PackageCoverage(0, 0)
INFO = PackageInfo("net", PackageTarget("pc", "llvm"), TENSORS, (), "lifted", COVERAGE, "NHWC")
NPZ = Accuracy("inputs", ("real.npz",))


def save(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_an_npz_is_cut_into_samples(tmp_path: Path) -> None:
    x = np.arange(18, dtype=np.float32).reshape(6, 3)
    path = save(tmp_path / "real.npz", x=x, n=np.arange(3))
    samples = list(list_samples(NPZ, [path], INFO))
    assert [sample["n"].tolist() for sample in samples] == [[0], [1], [2]]
    assert np.array_equal(np.concatenate([sample["x"] for sample in samples]), x)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 3), np.float32)}, r"must have exactly the inputs of net: n"),
        (
            {"x": np.zeros((3, 3), np.float32), "n": np.zeros(1, int)},
            r"x is float32 \[3, 3\], no samples of float32 \[2",
        ),
        ({"x": np.zeros((2, 3)), "n": np.zeros(1, int)}, r"x is float64 \[2, 3\], no samples"),
        (
            {"x": np.zeros((4, 3), np.float32), "n": np.zeros(1, int)},
            r"not equally many samples of each input: \[1, 2\]",
        ),
    ],
)
def test_arrays_that_are_no_samples(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(TvmbuildError, match=message):
        list(list_samples(NPZ, [save(tmp_path / "real.npz", **arrays)], INFO))


def test_pictures_are_preprocessed_as_the_package_says(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), (255, 0, 51)).save(tmp_path / "a.png")
    info = PackageInfo(
        "net",
        INFO.target,
        (TensorInfo("x", (1, 3, 2, 2), "float32"),),
        (),
        "lifted",
        COVERAGE,
        "NHWC",
        preprocess=Preprocess(),
    )
    (sample,) = list_samples(Accuracy("images", ("a.png",)), [tmp_path / "a.png"], info)
    assert sample["x"][0, :, 0, 0].tolist() == pytest.approx([1.0, 0.0, 0.2])


def test_agreement_is_of_the_first_output_and_errors_are_of_the_worst() -> None:
    samples = [(f"{value}.png", {"x": np.array([value])}) for value in (1.0, 2.0, 3.0)]

    def theirs(inputs: Arrays) -> Arrays:
        return {"y": np.array([[0.0, inputs["x"][0], 2.5]]), "z": np.array([-40.0]), "zero": np.zeros(2)}

    def ours(inputs: Arrays) -> Arrays:
        changed = {"y": theirs(inputs)["y"] + np.array([[0.0, 0.6 if inputs["x"][0] == 2 else 0.0, 0.0]])}
        return {**changed, "z": np.array([-40.75]), "zero": np.array([0.0, 0.01])}

    found = compare_samples(samples, ours, theirs)
    assert (found.samples, found.agreeing, found.max_abs_error, found.largest) == (3, 2, 0.75, 40.0)
    assert found.of_largest == pytest.approx(0.6 / 3.0)
    assert found.rms == pytest.approx((0.36 / (1 + 4 + 9 + 3 * 6.25)) ** 0.5)
    assert [found.worst_top1, found.worst_of_largest, found.worst_rms] == ["2.0.png"] * 3
    assert read_agreement(found.to_json()) == found


def test_each_row_of_a_batch_has_its_own_largest_element() -> None:
    want = np.array([[1.0, 5.0], [9.0, 2.0], [3.0, 4.0]])
    got = np.array([[5.0, 1.0], [9.0, 2.0], [3.0, 4.0]])  # the largest of all stands in its right place
    found = compare_samples([("a", {"x": np.zeros((3, 2))})], lambda _: {"y": got}, lambda _: {"y": want})
    assert (found.samples, found.agreeing, found.worst_top1) == (3, 2, "a")


def test_an_output_that_is_zero_has_its_error_itself() -> None:
    found = compare_samples([("a", {})], lambda _: {"y": np.array([0.0, 0.5])}, lambda _: {"y": np.zeros(2)})
    assert found.of_largest == 0.5
    assert found.rms == pytest.approx(0.125**0.5)


def test_nan_where_the_original_has_none() -> None:
    want = np.array([1.0, np.inf, np.nan, 2.0])
    wrong = np.array([1.0, np.inf, np.nan, np.nan])
    found = compare_samples([("a", {}), ("b", {})], iterate(want, wrong), lambda _: {"y": want})
    assert (found.unlike, found.worst_unlike, found.max_abs_error) == (1, "b", 0.0)
    check_agreement(found, NPZ)
    with pytest.raises(VerdictError, match="NaN or infinity in other places for 1 of 2 samples, as b"):
        check_agreement(found, replace(NPZ, rms=0.5))


def iterate(*values: np.ndarray) -> Run:
    """Return a run that computes one of them in each call."""
    left = iter(values)
    return lambda _: {"y": next(left)}


def test_outputs_of_another_shape_are_no_figure() -> None:
    with pytest.raises(TvmbuildError, match=r"the original model has the outputs .*'y': \[2\].* package .*'y': \[1\]"):
        compare_samples([("a", {})], lambda _: {"y": np.zeros(1)}, lambda _: {"y": np.zeros(2)})
    with pytest.raises(TvmbuildError, match="so no sample can measure"):
        compare_samples([], lambda _: {}, lambda _: {})


FOUND = Agreement(20, 19, 0.75, 40.0, 0.2, 0.05, 0, "cat.png", "dog.png", "fox.png")


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        (replace(NPZ, top1=0.97), "top1 is 0.95 (19 of 20 samples), asked for is 0.97, worst is cat.png"),
        (replace(NPZ, rms=0.04), "rms is 0.05, allowed is 0.04, worst is fox.png"),
        (replace(NPZ, of_largest=0.1, rms=0.1), "of_largest is 0.2, allowed is 0.1, worst is dog.png"),
        (replace(NPZ, top1=0.95, rms=0.05, of_largest=0.2), None),
        (NPZ, None),
    ],
)
def test_a_figure_beyond_its_threshold_is_a_verdict(accuracy: Accuracy, said: str | None) -> None:
    if said is None:
        check_agreement(FOUND, accuracy)
        return
    with pytest.raises(VerdictError) as caught:
        check_agreement(FOUND, accuracy)
    assert caught.value.message == f"too far from the original model on real inputs: {said}"
    assert "change its `accuracy:` in models.yaml" in str(caught.value.hint)
    assert isinstance(copy.copy(caught.value), VerdictError)  # by __reduce__, as between processes


def test_no_samples_no_figure(tmp_path: Path) -> None:
    options = BenchmarkStep("pc", "llvm", LocalDevice(), 2, Tolerance(), BenchmarkOptions())
    files = FrozenMap({role: tmp_path / role for role in ("package", "model", "reference")})
    assert make_trial(Step("benchmark", "net@pc", options, files, root=tmp_path)).judge is None


def test_the_report_shows_it_for_cells_that_have_it(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "pc")
    write_built(layout, "net", "pc")
    value = make_result("net@pc").to_json()
    assert "accuracy" not in value
    value["accuracy"] = {"samples": 16, "agreeing": 15, "max_abs_error": 0.26, "largest": 19.8}  # before it had more
    result = read_result(value)
    assert result is not None
    assert result.accuracy == Agreement(16, 15, 0.26, 19.8)
    assert read_result(result.to_json()) == result
    write_json(layout.cell_file("net", "pc", "result.json"), value)
    line = "net@pc: same top-1 for 15 of 16 (93.8%), largest error 0.26 where outputs reach 19.8"
    assert line in write_markdown([only(tmp_path, steps)])
    assert line.partition(": ")[2] in write_html([only(tmp_path, steps)])


@pytest.mark.compiler
def test_a_package_agrees_with_the_model_it_was_made_of(tmp_path: Path, digits: Path) -> None:
    from tvmbuild.package.runtime.session import Session

    os.environ["TVM_NUM_THREADS"] = "2"
    (tensor,) = onnxruntime.InferenceSession(str(digits)).get_inputs()
    pictures = np.random.RandomState(0).uniform(0, 255, (5, *tensor.shape[1:])).astype(np.float32)
    package, samples = build_package(digits, tmp_path), save(tmp_path / "real.npz", **{tensor.name: pictures})
    judge = make_judge(NPZ, read_metadata(package), digits, [samples])
    with Session(package) as session:
        found = judge(session.run)
    assert (found.samples, found.agreeing) == (5, 5)
    assert found.max_abs_error < 1e-4 * found.largest


def test_the_quantised_file_is_judged_beside_the_package(tmp_path: Path) -> None:
    net = make_net()
    onnx.save(net, tmp_path / "float.onnx")
    onnx.save(quantise(Work(make_net(), SAMPLES, ())), tmp_path / "net.onnx")
    path = save(tmp_path / "real.npz", x=np.concatenate([each["x"] for each in SAMPLES]))
    takes = ModelInputs("net", (TensorInfo("x", (1, 3, 16, 16), "float32"),))
    judge = judge_file_too(make_judge(NPZ, takes, tmp_path / "float.onnx", [path]), tmp_path / "net.onnx")
    right = judge(open_onnx(net.SerializeToString(), "net"))
    assert (right.rms, right.of_file and right.of_file.samples) == (0.0, 4)
    assert right.of_file is not None
    lost = right.of_file.rms
    assert lost is not None
    assert lost > 0.01
    assert read_agreement(right.to_json()) == right
    assert f"the quantised file itself: same top-1 for {right.of_file.agreeing} of 4" in right.describe()
    quantised = replace(right.of_file, of_file=right.of_file)
    lost_here = (
        "itself is too far under ONNX Runtime, so quantising lost it: rms is .*\n.*`tvmbuild explain quantize:MODEL`"
    )
    with pytest.raises(VerdictError, match=lost_here):
        check_agreement(quantised, replace(NPZ, rms=lost / 2))
    with pytest.raises(VerdictError, match="hint: quantise the float model here by `quantize:`"):
        check_agreement(quantised, replace(NPZ, rms=lost / 2, original="float.onnx"))
    built_wrong = replace(quantised, rms=3 * lost)
    with pytest.raises(VerdictError, match=r"so the build lost it: same top-1 .*\n.*`tvmbuild debug CELL"):
        check_agreement(built_wrong, replace(NPZ, rms=2 * lost))


def test_an_original_with_other_names_is_compared_in_order(tmp_path: Path) -> None:
    net, named = make_net(), make_net()
    for node in named.graph.node:
        node.input[:] = ["images" if name == "x" else name for name in node.input]
        node.output[:] = ["scores" if name == "y" else name for name in node.output]
    named.graph.input[0].name, named.graph.output[0].name = "images", "scores"
    onnx.save(named, tmp_path / "float.onnx")
    path = save(tmp_path / "real.npz", x=np.concatenate([each["x"] for each in SAMPLES]))
    takes = ModelInputs("net", (TensorInfo("x", (1, 3, 16, 16), "float32"),))
    found = make_judge(NPZ, takes, tmp_path / "float.onnx", [path])(open_onnx(net.SerializeToString(), "net"))
    assert (found.samples, found.rms) == (4, 0.0)


def test_samples_are_read_once_and_run_in_their_order() -> None:
    reads = []

    def read() -> Iterator[tuple[str, Arrays]]:
        reads.append(1)
        return ((f"s{index}", each) for index, each in enumerate(SAMPLES))

    samples = RememberedSamples(read)
    run = open_onnx(make_net().SerializeToString(), "net")
    for _ in range(2):
        found = list(run_each(samples, run))
        assert [name for name, _, _ in found] == ["s0", "s1", "s2", "s3"]
        for (_, inputs, outputs), sample in zip(found, SAMPLES, strict=True):
            assert inputs is sample
            assert np.array_equal(outputs["y"], run(sample)["y"])
    assert len(reads) == 1
    order = [name for name, _, _ in run_each(samples, lambda inputs: inputs)]
    assert order == ["s0", "s1", "s2", "s3"]
