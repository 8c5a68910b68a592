"""Modules named by a string: import contracts do not see these dependencies, so all of them are listed here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import tvmbuild

ROOT = Path(tvmbuild.__file__).parent
DOTTED = re.compile(r"tvmbuild(?:\.[a-z][a-z0-9_]*)+")
"""Matches text that looks like one of our modules."""
OTHERS = {
    "tvmbuild.cpp",
    "tvmbuild.inside",
    "tvmbuild.meets_infinities",
    "tvmbuild.overlaps",
    "tvmbuild.prefetch",
    "tvmbuild.rows",
}
"""Matching texts that are not modules: a file in a package, attributes and annotations of TVM's."""
PROCESSES = {
    "tvmbuild.planning.detection": {"tvmbuild.planning.probe"},
    "tvmbuild.benchmarking.frames.serve_opencv": {"tvmbuild.benchmarking.frames.serve_opencv"},
    "tvmbuild.cli.check": {"tvmbuild.building.examine"},
    "tvmbuild.cli.debug.command": {"tvmbuild.debugging"},
    "tvmbuild.cli.inspection": {"tvmbuild.building.inspection"},
    "tvmbuild.cli.compile.target_words": {"tvmbuild.devices.local.cpu_names"},
    "tvmbuild.cli.device.list": {"tvmbuild.devices.rpc.info"},
    "tvmbuild.cli.records.conversion": {"tvmbuild.replay.json_database"},
    "tvmbuild.cli.target.lock": {"tvmbuild.devices.local.describe"},
    "tvmbuild.devices.model_worker": {"tvmbuild.devices.serve_model"},
    "tvmbuild.devices.local.peak": {"tvmbuild.devices.local.peak"},
    "tvmbuild.devices.local.card_peak": {"tvmbuild.devices.local.card_peak"},
    "tvmbuild.devices.local.gpu_peak": {"tvmbuild.devices.local.gpu_peak"},
    "tvmbuild.devices.qemu.device": {"tvmbuild.devices.serve_model"},
    "tvmbuild.devices.rpc.device": {"tvmbuild.devices.rpc.relay"},
    "tvmbuild.devices.rpc.boards": {"tvmbuild.devices.rpc.timer"},
    "tvmbuild.devices.rpc.supervisor": {"tvmbuild.devices.local.describe", "tvmbuild.devices.rpc.server"},
    "tvmbuild.devices.ssh.device": {"tvmbuild.devices.ssh.relay"},
    "tvmbuild.engine.process": {"tvmbuild.stages"},
    "tvmbuild.benchmarking.metric": {"tvmbuild.benchmarking.metric_process"},
    "tvmbuild.sources.export": {"tvmbuild.sources.export_process"},
    "tvmbuild.preparing.onnxsim_process": {"tvmbuild.preparing.onnxsim_process"},
    "tvmbuild.preparing.pt2.convert": {"tvmbuild.preparing.pt2.convert_process"},
}
"""Module that starts a process → the modules that it starts."""
FILES = "build check completion config explain init pack schema worker"
FOLDERS = "bench bundle compile debug device doctor plan records report run target"
IMPORTS = {
    "tvmbuild": {"tvmbuild.package.archive", "tvmbuild.package.runtime.choice", "tvmbuild.package.runtime.session"},
    "tvmbuild.package.runtime.host": {
        "tvmbuild.package.runtime.cuda.plugin",
        "tvmbuild.package.runtime.vulkan.plugin",
    },
    "tvmbuild.cli": {
        *(f"tvmbuild.cli.{name}" for name in FILES.split()),
        *(f"tvmbuild.cli.{name}.command" for name in FOLDERS.split()),
    },
    "tvmbuild.cli.device.command": {f"tvmbuild.cli.device.{name}" for name in ("emulator", "list", "serve", "tracker")},
    "tvmbuild.cli.records.command": {
        f"tvmbuild.cli.records.{name}"
        for name in ("exporting", "importing", "list", "merge", "merge_driver", "prune", "show", "verify")
    },
    "tvmbuild.stages.table": {
        f"tvmbuild.stages.{name}"
        for name in ("benchmark", "compile", "keep", "quantize", "simplify", "tune", "validate")
    },
}
"""Module with strings that are imported on demand → the imported modules."""


def _list_modules() -> dict[str, Path]:
    """Return module → file; a package is its `__init__.py`."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("tvmbuild", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _list_strings(path: Path) -> Iterator[str]:
    """Yield the file's string literals, including the constant parts of f-strings.

    Modules that are imported lazily are left out, because the type checker reads their names, too.
    """
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    lazy = {id(each) for node in nodes if isinstance(node, ast.Call) and _is_lazy(node) for each in node.args}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in lazy:
            yield node.value


def _is_lazy(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "import_lazily"


def find_named() -> dict[str, set[str]]:
    """Return module → the module-like texts in its strings."""
    named = {
        module: {text for text in _list_strings(path) if DOTTED.fullmatch(text)} - OTHERS
        for module, path in _list_modules().items()
    }
    return {module: texts for module, texts in named.items() if texts}


def test_every_module_that_a_string_names_is_known() -> None:
    assert find_named() == PROCESSES | IMPORTS


def test_every_module_that_a_string_names_exists() -> None:
    modules = _list_modules()
    named = {name for names in find_named().values() for name in names}
    assert sorted(named - modules.keys()) == []
    started = {name for names in PROCESSES.values() for name in names}
    programs = [name for name in started if f"{name}.__main__" not in modules]
    assert [name for name in programs if "__main__" not in modules[name].read_text()] == []


def test_no_module_is_named_in_parts() -> None:
    """Nobody would find a name that an f-string or a sum puts together."""
    parts = re.compile(r"tvmbuild\.(?:[a-z0-9_]+\.)*")
    found = {(module, text) for module, path in _list_modules().items() for text in _list_strings(path)}
    assert {(module, text) for module, text in found if parts.fullmatch(text)} == {
        ("tvmbuild.devices.rpc.protocol", "tvmbuild.board.")  # functions on a board
    }


def test_a_program_starts_after_its_last_definition() -> None:
    """The code after ``if __name__ == "__main__"`` is not defined while the program runs."""
    late = {
        f"{module}: {ast.unparse(after)[:40]}"
        for module, path in _list_modules().items()
        for before, after in pairwise(ast.parse(path.read_text(encoding="utf-8")).body)
        if isinstance(before, ast.If) and "__main__" in ast.unparse(before.test)
    }
    assert late == set()
