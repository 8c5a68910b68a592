"""The command `tvmbuild bundle CELL…`: one archive for a machine without network to tune and time cells."""

from __future__ import annotations

import argparse
import tarfile
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tvmbuild.base.attributes import NARROW
from tvmbuild.base.files import write_bytes
from tvmbuild.base.kept_nodes import read_kept_nodes
from tvmbuild.base.layout import MODELS_YAML, TARGETS_YAML, Layout
from tvmbuild.base.progress import progress_shown_by, report_progress
from tvmbuild.cli.bundle.site import SITE, add_package, find_runtimes, pack_site
from tvmbuild.config import load_project
from tvmbuild.config.targets import spread_precisions
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root

HELP = "pack cells, records and this installation for a machine without network"
RUNNER = "run.py"
_DODO = (
    "from tvmbuild.doit_adapter.loader import load_doit_file\n\nDOIT_CONFIG, task_steps = load_doit_file(__file__)\n"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("cells", metavar="CELL", nargs="+", help="globs of MODEL@TARGET; disabled ones count too")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, default=Path("bundle.tar"))
    parser.add_argument("--python", metavar="X.Y", default="3.12", help="Python of the other machine (default: 3.12)")
    parser.add_argument("--machine", metavar="NAME", default="x86_64", help="its processor (default: x86_64)")
    parser.add_argument(
        "--have",
        metavar="NAME,…",
        default="numpy",
        help="distributions that it has already (default: numpy); scipy, onnx and onnxruntime are the large ones",
    )
    parser.add_argument("--link", metavar="COMMAND", default="gcc", help="its C compiler (default: gcc)")


def run(args: argparse.Namespace) -> int:
    """Write the archive and return the exit code."""
    root = find_root(Path.cwd())
    cells, kinds = _choose(root, args.cells)
    project = _pack_project(root, cells, args.link)
    with (
        TemporaryDirectory(prefix="tvmbuild-bundle-") as temporary,
        progress_shown_by(lambda text: print(text, flush=True)),
    ):
        libraries = find_runtimes(args.machine, kinds)
        site = pack_site(Path(temporary), args.python, args.machine, frozenset(args.have.split(",")))
        report_progress("writing the archive")
        memory = BytesIO()
        with tarfile.open(fileobj=memory, mode="w") as archive:
            runner = Path(__file__).parents[2] / "templates" / "bundle" / RUNNER
            _add(archive, RUNNER, runner.read_bytes())
            _add(archive, SITE, site.read_bytes())
            add_package(archive, *libraries)
            for name, data in project.items():
                _add(archive, f"project/{name}", data)
        write_bytes(args.output.absolute(), memory.getvalue())
    size = args.output.stat().st_size / 2**20
    print(f"wrote {args.output}: {len(cells)} cells, {size:.1f} MiB")
    print(f"there: tar xf {args.output.name} && python3 {RUNNER}; then here: tvmbuild records import results/records")
    return 0


def _choose(root: Path, globs: Iterable[str]) -> tuple[list[tuple[str, str]], set[str]]:
    """Return the cells (model, target) that the globs match, and the kinds of their targets.

    Raises TvmbuildError for a glob that matches no cell.
    """
    project = load_project(root)
    known = [(m.name, t.name) for m in project.models for t in project.targets if m.includes(t.name)]
    chosen: dict[tuple[str, str], None] = {}
    for glob in globs:
        found = [cell for cell in known if fnmatchcase("@".join(cell), glob)]
        if not found:
            raise TvmbuildError(f"no cell matches {glob!r}", "`tvmbuild list --all` shows every step")
        chosen |= dict.fromkeys(found)
    targets = {target for _, target in chosen}
    return list(chosen), {target.kind for target in project.targets if target.name in targets}


def _pack_project(root: Path, cells: Sequence[tuple[str, str]], link: str) -> dict[str, bytes]:
    """Return the files of a project with only the given cells: relative path → contents.

    It has simplified models, targets with `device: local`, and the targets' records.
    """
    layout, models, targets = Layout(root), _read(root, MODELS_YAML), _read_targets(root)
    files: dict[str, bytes] = {"dodo.py": _DODO.encode()}
    packed: dict[str, Any] = {}
    for name in dict.fromkeys(model for model, _ in cells):
        if models["models"][name].get("sizes"):
            raise TvmbuildError(
                f"{name} has `sizes`, and a bundle measures models of one shape",
                "name cells of a model with numbers in its shapes",
            )
        mine = [target for model, target in cells if model == name]
        integers = {_is_quantised(models["models"][name], targets["targets"][target]) for target in mine}
        if len(integers) > 1:
            raise TvmbuildError(
                f"{name} is a float model for some of these cells and a quantised one for others",
                "pack them into two archives",
            )
        files[f"models/{name}.onnx"] = _read_model(layout, name, quantised=integers == {True})
        kept = {key: models["models"][name][key] for key in ("inputs", "tolerance") if key in models["models"][name]}
        packed[name] = {**kept, "source": {"path": f"models/{name}.onnx"}, "simplify": {"enabled": False}}
        packed[name]["targets"] = {"include": mine}
        narrow = [each for each in mine if targets["targets"][each].get("precision") in NARROW]
        if "keep" in models["models"][name] and narrow and (nodes := _list_kept(layout, name, narrow)):
            packed[name]["keep"] = nodes
    files[MODELS_YAML] = _dump({"models": packed, **_defaults(models, "tolerance")})
    there = {}
    for name in dict.fromkeys(target for _, target in cells):
        kept = {key: value for key, value in targets["targets"][name].items() if key not in {"enabled", "glibc"}}
        there[name] = {**kept, "device": "local", "link": link}
        for path in sorted(layout.records(name).rglob("*.json")):
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    files[TARGETS_YAML] = _dump({"targets": there, **_defaults(targets, "tune", "benchmark")})
    return files


def _is_quantised(model: dict[str, Any], target: dict[str, Any]) -> bool:
    return "quantize" in model and target.get("precision") == "int8"


def _list_kept(layout: Layout, name: str, targets: Sequence[str]) -> list[str]:
    """Return the names of the nodes of a model that stay in float32 in its cells of 16 bits.

    Raises TvmbuildError if the stage keep has not run for a cell, or if the cells keep different nodes.
    """
    found = set[tuple[str, ...]]()
    for target in targets:
        path = layout.cell_file(name, target, "kept.json")
        if not path.is_file():
            raise TvmbuildError(
                f"the operators of {name}@{target} in float32 are not chosen yet", f"tvmbuild keep:{name}@{target}"
            )
        found.add(read_kept_nodes(path))
    if len(found) > 1:
        raise TvmbuildError(f"the cells of {name} keep different operators in float32", "pack them into two archives")
    return list(found.pop())


def _read_targets(root: Path) -> dict[str, Any]:
    """Return the file with a target for each precision."""
    data = _read(root, TARGETS_YAML)
    targets = {
        name: each for own, written in data["targets"].items() for name, each in spread_precisions(own, written).items()
    }
    return {**data, "targets": targets}


def _read_model(layout: Layout, name: str, *, quantised: bool) -> bytes:
    """Return the ONNX model from which the cells are built. Raises TvmbuildError if its stage has not run."""
    path = layout.model_file(name, "quantised/model.onnx" if quantised else "model.onnx")
    if not path.is_file():
        stage, what = ("quantize", "quantised") if quantised else ("simplify", "simplified")
        raise TvmbuildError(f"{name} is not {what} yet", f"tvmbuild {stage}:{name}")
    return path.read_bytes()


def _read(root: Path, name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((root / name).read_text(encoding="utf-8"))
    return data


def _defaults(data: dict[str, Any], *names: str) -> dict[str, Any]:
    kept = {key: value for key, value in data.get("defaults", {}).items() if key in names}
    return {"defaults": kept} if kept else {}


def _dump(data: dict[str, Any]) -> bytes:
    return yaml.safe_dump(data, sort_keys=False).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, BytesIO(data))
