from __future__ import annotations

import json
from pathlib import Path

from tvmbuild.records.block_names import list_blocks, rename_blocks
from tvmbuild.records.store import read_task_file


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
    assert rename_blocks(trace, ("compute",), ("T_maximum", "root")) is trace  # of another form: it will not replay
    assert list_blocks("{}") == list_blocks("no JSON") == ()
