from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

from tvmbuild.fingerprint import digest_file, fingerprint, is_same_file
from tvmbuild.specs import Export, ExportFile, InputSpec, Json, SimplifyOptions, Source
from tvmbuild.steps import CompileStep, Settings, SimplifyStep, Step

STEP = Step(
    stage="simplify",
    subject="net",
    options=SimplifyStep("net", Source("path", "net.onnx"), (InputSpec("x", (1, 3)),), SimplifyOptions()),
    tools=(("onnx", "1.0"),),
    environment=(("TVM_NUM_THREADS", "2"),),
)


def test_pairs_are_flat_and_readable() -> None:
    pairs = fingerprint(STEP)
    assert pairs["option.inputs[0].shape"] == "[1,3]"
    assert pairs["option.source.location"] == '"net.onnx"'
    assert pairs["tool onnx"] == "1.0"
    assert pairs["environment TVM_NUM_THREADS"] == "2"
    assert pairs["stage version"] == "1"


def test_arguments_of_an_export_are_shown_as_the_yaml_has_them() -> None:
    files = (ExportFile("weights", Source("path", "w.bin")),)
    export = Export("make", (("depth", Json('{"a":[1,2]}')), ("name", Json('"net"'))), files)
    options = SimplifyStep("net", Source("export", "net.py", export=export), (), SimplifyOptions())
    pairs = fingerprint(replace(STEP, options=options))
    assert pairs["option.source.export.function"] == '"make"'
    assert pairs["option.source.export.arguments.depth"] == '{"a":[1,2]}'
    assert pairs["option.source.export.arguments.name"] == '"net"'
    assert pairs["option.source.export.files[0].name"] == '"weights"'
    assert pairs["option.source.export.files[0].source.location"] == '"w.bin"'


def test_other_sources_have_the_fingerprint_that_they_had_before_exports() -> None:
    assert {name for name in fingerprint(STEP) if name.startswith("option.source.")} == {
        f"option.source.{name}" for name in ("kind", "location", "file", "sha256")
    }


def test_mode_root_and_availability_are_not_in_it() -> None:
    other = replace(STEP, settings=Settings("full", strict=True), root=Path("/elsewhere"), unavailable="no")
    assert fingerprint(other) == fingerprint(STEP)


def test_a_field_that_came_later_counts_only_where_it_is_said() -> None:
    plain = CompileStep("net", "pc", "llvm", (), (), "auto", None, None)
    names = {"model", "target", "kind", "attributes", "host", "link", "glibc", "preprocess"}
    before = fingerprint(replace(STEP, options=plain))
    assert {name for name in before if name.startswith("option.")} == {f"option.{name}" for name in names}
    reduced = fingerprint(replace(STEP, options=replace(plain, precision="fp16")))
    assert reduced == before | {"option.precision": '"fp16"'}


def test_a_step_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(STEP)) == STEP  # noqa: S301 - our own bytes


def test_a_file_is_the_same_by_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("abc")
    known = digest_file(path)
    os.utime(path, (1, 1))
    assert is_same_file(path, known)
    path.write_text("abd")
    assert not is_same_file(path, known)
    path.write_text("abcd")
    assert not is_same_file(path, known)
    path.unlink()
    assert not is_same_file(path, known)
