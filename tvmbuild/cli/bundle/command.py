"""The command `tvmbuild bundle CELL…`: one archive for a machine without network to tune and time cells."""

from __future__ import annotations

import argparse
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tvmbuild.base.attributes import ROUNDED
from tvmbuild.base.files import write_bytes
from tvmbuild.base.kept_nodes import read_kept_nodes
from tvmbuild.base.layout import MODELS_YAML, TARGETS_YAML, Layout
from tvmbuild.base.progress import progress_shown_by, report_progress
from tvmbuild.base.size_specs import Size, Sizes
from tvmbuild.base.wording import count
from tvmbuild.cli.bundle.site import SITE, add_package, find_runtimes, pack_site
from tvmbuild.config import load_project
from tvmbuild.config.sizes import make_sizes
from tvmbuild.config.targets import spread_precisions
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root

HELP = "pack cells, records and this installation for a machine without network"
RUNNER = "run.py"
MAX_NAME = 64
"""The most characters of a model's name. The schema has the same limit."""
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
    print(f"wrote {args.output}: {count(len(cells), 'cell')}, {size:.1f} MiB")
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

    It has simplified models, targets with `device: local`, and the targets' records. Each size of a model whose shapes
    vary is a model of its own: records belong to Tasks, whatever the model.
    """
    layout, models, targets = Layout(root), _read(root, MODELS_YAML), _read_targets(root)
    files: dict[str, bytes] = {"dodo.py": _DODO.encode()}
    packed: dict[str, Any] = {}
    for name in dict.fromkeys(model for model, _ in cells):
        mine = [target for model, target in cells if model == name]
        integers = {_is_quantised(models["models"][name], targets["targets"][target]) for target in mine}
        if len(integers) > 1:
            raise TvmbuildError(
                f"{name} is a float model for some of these cells and a quantised one for others",
                "pack them into two archives",
            )
        rounded = [each for each in mine if targets["targets"][each].get("precision") in ROUNDED]
        kept = _list_kept(layout, name, rounded) if "keep" in models["models"][name] and rounded else []
        for shaped, path, told in _list_shaped(layout, name, models["models"][name], quantised=integers == {True}):
            _check_name(shaped, name, {*models["models"], *packed})
            files[f"models/{shaped}.onnx"] = path.read_bytes()
            nodes = _list_present(path, kept) if kept else []
            own = {"targets": {"include": mine}, **({"keep": nodes} if nodes else {})}
            source = {"source": {"path": f"models/{shaped}.onnx"}, "simplify": {"enabled": False}}
            packed[shaped] = {**{key: told[key] for key in ("inputs", "tolerance") if key in told}, **source, **own}
    files[MODELS_YAML] = _dump({"models": packed, **_defaults(models, "tolerance")})
    there: dict[str, Any] = {}
    for name in dict.fromkeys(target for _, target in cells):
        told = {key: value for key, value in targets["targets"][name].items() if key not in {"enabled", "glibc"}}
        there[name] = {**told, "device": "local", "link": link}
        for path in sorted(layout.records(name).rglob("*.json")):
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    files[TARGETS_YAML] = _dump({"targets": there, **_defaults(targets, "tune", "benchmark")})
    return files


def _is_quantised(model: dict[str, Any], target: dict[str, Any]) -> bool:
    return "quantize" in model and target.get("precision") == "int8"


def _list_kept(layout: Layout, name: str, targets: Sequence[str]) -> list[str]:
    """Return the names of the nodes of a model that stay in float32 in its cells of shorter floats.

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


def _list_present(path: Path, nodes: Sequence[str]) -> list[str]:
    """Return the nodes that an ONNX file has: a smaller size may lack some of the largest size's."""
    import onnx  # noqa: PLC0415 - takes long, and only cells with `keep` need it

    present = {node.name for node in onnx.load(path, load_external_data=False).graph.node}
    return [name for name in nodes if name in present]


def _check_name(shaped: str, name: str, taken: Collection[str]) -> None:
    """Raise TvmbuildError if the model of one size of ``name`` cannot have the name ``shaped`` in the archive."""
    if shaped == name:
        return
    if shaped in taken:
        raise TvmbuildError(
            f"a size of {name} would be called {shaped} in the archive, as another model or size is",
            f"rename {name} or the other one in models.yaml",
        )
    if len(shaped) > MAX_NAME:
        raise TvmbuildError(
            f"a size of {name} would be called {shaped} in the archive, which has more than {MAX_NAME} characters",
            f"rename {name} in models.yaml",
        )


def _read_targets(root: Path) -> dict[str, Any]:
    """Return the contents of targets.yaml, with a target for each precision where one lists several."""
    data = _read(root, TARGETS_YAML)
    targets = {
        name: each for own, written in data["targets"].items() for name, each in spread_precisions(own, written).items()
    }
    return {**data, "targets": targets}


def _list_shaped(
    layout: Layout, name: str, told: Mapping[str, Any], *, quantised: bool
) -> Iterator[tuple[str, Path, Mapping[str, Any]]]:
    """Yield each model of one shape: its name, its ONNX file, and its keys in models.yaml.

    Raises TvmbuildError if the stage that writes the file has not run.
    """
    stage, what = ("quantize", "quantised") if quantised else ("simplify", "simplified")
    largest = layout.model_file(name, "quantised/model.onnx" if quantised else "model.onnx")
    sizes = make_sizes(dict(told))
    shaped: list[tuple[str, Path, Mapping[str, Any]]] = [(name, largest, told)]
    if sizes is not None:
        folders = [*(layout.sizes(largest.parent) / each.name for each in sizes.others), largest.parent]
        shaped = [
            (f"{name}-{size.name.lower()}", folder / largest.name, {**told, "inputs": _fix_shapes(told, sizes, size)})
            for size, folder in zip(sizes.choices, folders, strict=True)
        ]
    for each in shaped:
        if not each[1].is_file():
            raise TvmbuildError(f"{name} is not {what} yet", f"tvmbuild {stage}:{name}")
        yield each


def _fix_shapes(told: Mapping[str, Any], sizes: Sizes, size: Size) -> dict[str, Any]:
    """Return the inputs with numbers in place of letters."""
    return {
        name: {**each, "shape": list(shape)} if (shape := sizes.shape(name, size)) else each
        for name, each in told["inputs"].items()
    }


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
