from __future__ import annotations

import json
from pathlib import Path

from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.records.block_names import list_blocks, rename_blocks
from tvmbuild.records.merge import merge_files
from tvmbuild.records.seeds import list_foreign
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile


def test_the_names_of_a_shipped_record(project_root: Path) -> None:
    records = sorted(project_root.glob("tvmbuild/templates/project/records/*/????????????????.json"))
    assert records
    for path in records:
        file = read_task_file(path)
        assert file is not None
        names = list_blocks(file.workload)
        assert "root" in names
        for record in file.records:
            trace = json.loads(record.trace)
            found = {each[2][0] for each in trace["instructions"] if each[0] == "GetSBlock"}
            assert {name for name in found if not name.startswith(names)} == set()
            assert rename_blocks(trace, names, names) is trace


def test_blocks_are_called_by_their_own_names() -> None:
    trace = {
        "decisions": [],
        "instructions": [
            ["GetSBlock", [], ["compute", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["GetSBlock", [], ["compute_update", "main"], ["b2"]],
        ],
    }
    renamed = rename_blocks(trace, ("conv2d_nhwc", "compute", "root"), ("conv2d_nhwc", "T_maximum", "root"))
    assert renamed["instructions"] == [
        ["GetSBlock", [], ["T_maximum", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["GetSBlock", [], ["T_maximum_update", "main"], ["b2"]],
    ]
    assert rename_blocks(trace, ("compute",), ("T_maximum", "root")) is trace  # it has another form and will not replay
    assert list_blocks("{}") == list_blocks("no JSON") == ()


def make_file(block: str, device_class: str, target: str = "znver4", tvm: str = "0.27.0") -> TaskFile:
    """Return a Task's file in which a workload and its single record use that name for a block."""
    nodes = [{"type": "s_tir.SBlock", "data": {"name_hint": 1}}, {"type": "String", "data": block}]
    trace = {"decisions": [], "instructions": [["GetSBlock", [], [f"{block}_update", "main"], ["b0"]]]}
    attributes = {"attributes": {"mcpu": target}, "host": {}, "kind": "llvm"}
    record = Record(canonical_json(trace), 1e-6, device_class, 2, tvm)
    workload = json.dumps({"nodes": nodes}, separators=(",", ":"))
    return TaskFile("a" * 16, "conv2d", workload, canonical_json(attributes), tvm, (record,))


def list_found(records: tuple[Record, ...]) -> set[str]:
    return {each[2][0] for record in records for each in json.loads(record.trace)["instructions"]}


def test_a_merge_calls_blocks_by_the_names_of_one_workload() -> None:
    ours, theirs = make_file("compute", "here"), make_file("T_maximum", "there", tvm="0.28.0")
    merged = merge_files(ours, theirs)
    assert merged == merge_files(theirs, ours)
    assert (merged.workload, len(merged.records)) == (theirs.workload, 2)
    assert list_found(merged.records) == {"T_maximum_update"}


def test_what_others_found_is_called_by_the_names_of_this_workload(tmp_path: Path) -> None:
    own, other = make_file("compute", "here"), make_file("T_maximum", "there", target="haswell")
    write_task_file(record_path(Layout(tmp_path).records("old"), other.key), other)
    assert list_found(list_foreign(Layout(tmp_path), own, "here")) == {"compute_update"}
