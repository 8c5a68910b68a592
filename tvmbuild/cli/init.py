"""The command `tvmbuild init`: a working project in an empty folder."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from tvmbuild.base.files import publish, write_text
from tvmbuild.base.layout import MODELS_YAML, TARGETS_YAML
from tvmbuild.base.wording import count
from tvmbuild.cli.compile.command import add_target_argument, name_target
from tvmbuild.cli.compile.model_words import ModelWords, add_model_arguments, find_model, state_shapes
from tvmbuild.cli.compile.project import models_text, targets_text
from tvmbuild.cli.compile.target_words import TargetWords, find_target
from tvmbuild.config.schema import SCHEMAS, schema_text
from tvmbuild.engine.external_data import list_external_data
from tvmbuild.errors import TvmbuildError

HELP = "write a working project, for a small model with its records or for your model"

RENAMED = {"gitignore": ".gitignore", "gitattributes": ".gitattributes", "dodo.txt": "dodo.py"}
"""The template's files that have another name in the package: name there → name in the project.

git would obey two of them, and the third is not a module of tvmbuild.
"""
THIS_PC = "this-pc"
MORE_TARGETS = "# More hardware: `tvmbuild target add NAME`; NAME is x86-64-v3 for any PC with AVX2, pi5, nuc, …\n"
IGNORED = frozenset({".git", ".venv"})
"""The names of files that may be in a folder that counts as empty."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        default=".",
        type=Path,
        help="the project's folder, made if it does not exist (default: here)",
    )
    parser.add_argument("--model", metavar="MODEL", help="use this model instead of the small one; it has no records")
    add_target_argument(parser)
    add_model_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Copy the template into an empty folder, or write the project of ``--model`` into a folder without a project."""
    folder: Path = args.folder
    if args.model is None:
        if any((args.target, args.precision, args.shapes, args.values, args.labels, args.preprocess, args.postprocess)):
            raise TvmbuildError("these options need a model of your own", "Name it by --model.")
        return _init_template(folder)
    model, target = find_model(args.model, args), name_target(args)
    with _written_to(folder):
        written = write_for(folder, replace(model, data={**model.data, **state_shapes(model)}), target)
    _print_written(folder, written)
    return 0


def _init_template(folder: Path) -> int:
    if folder.exists() and not folder.is_dir():
        raise TvmbuildError(f"{folder} is a file", "Name a folder that is empty or does not exist.")
    present = sorted({path.name for path in folder.iterdir()} - IGNORED) if folder.exists() else []
    if present:
        raise TvmbuildError(f"{folder.resolve()} is not empty: it holds {present[0]}", "Name an empty folder.")
    with _written_to(folder):
        written = write_project(folder, find_target(None))
    records = [path for path in written if path.parts[0] == "records"]
    told = f"wrote {folder / 'records'} ({count(len(records), 'file')}: the model is tuned for x86-64-v3)"
    _print_written(folder, [path for path in written if path not in records], told)
    return 0


@contextmanager
def _written_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TvmbuildError(
            f"cannot write to {folder}: {error.strerror}", "Name a folder that you may write."
        ) from error


def _print_written(folder: Path, written: Sequence[Path], *more: str) -> None:
    print("\n".join([*(f"wrote {folder / path}" for path in written), *more]))
    place = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    print(f"next: {place}doit")


def write_for(folder: Path, model: ModelWords, target: TargetWords) -> list[Path]:
    """Write a project of one model and one target, like that of `tvmbuild compile`, for the user to keep.

    Return the paths of the files, relative to the folder. A model from outside the folder is copied into it. If one of
    the files exists, raise TvmbuildError and overwrite nothing.
    """
    texts = {name: (_template() / kept).read_text(encoding="utf-8") for kept, name in RENAMED.items()}
    texts |= {f"schemas/{name}.schema.json": schema_text(name) for name in SCHEMAS}
    model = replace(model, path=_resolve(model.path), labels=_resolve(model.labels) if model.labels else None)
    given = [model.path, *([model.labels] if model.labels else [])]
    copies = {name: source for path in given for name, source in _list_copies(path, folder.resolve()).items()}
    present = [name for name in (MODELS_YAML, TARGETS_YAML, *texts, *copies) if (folder / name).exists()]
    if present:
        raise TvmbuildError(f"{folder.resolve()} has a {present[0]}", "Name another folder: nothing is overwritten.")
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    for name, source in copies.items():
        with publish(folder / name) as temporary:
            shutil.copyfile(source, temporary)
    model = replace(
        model, path=_find_in(model.path, folder), labels=_find_in(model.labels, folder) if model.labels else None
    )
    for name, text in ((MODELS_YAML, models_text(model, folder)), (TARGETS_YAML, targets_text(target))):
        kind = name.partition(".")[0]
        head = f"# yaml-language-server: $schema=schemas/{kind}.schema.json\n# All keys: `tvmbuild schema {kind}`.\n"
        texts[name] = head + (MORE_TARGETS if name == TARGETS_YAML else "") + text
    for name, text in texts.items():
        write_text(folder / name, text)
    return sorted(Path(name) for name in (*texts, *copies))


def _resolve(path: Path) -> Path:
    """Return the absolute path without `..`. If the last part is a link, it keeps its name."""
    return path.parent.resolve() / path.name


def _list_copies(path: Path, folder: Path) -> dict[str, Path]:
    """Return the copies to make of a file from outside the folder and its external data: path of the copy → source.

    The result is empty for a file inside the folder.
    """
    if path.is_relative_to(folder):
        return {}
    data = list_external_data(path) if path.suffix == ".onnx" else []
    return {f"models/{name}": path.parent / name for name in (path.name, *data)}


def _find_in(path: Path, folder: Path) -> Path:
    return path if path.is_relative_to(folder) else folder / "models" / path.name


def _template() -> Path:
    return Path(str(files("tvmbuild") / "templates" / "project"))


def write_project(folder: Path, this_pc: TargetWords | None = None) -> list[Path]:
    """Write the template's files, and the schemas that the YAML files name. Return their relative paths, sorted.

    ``this_pc`` becomes the first target, because the template's own target fits any PC.
    """
    template = _template()
    written = []
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        relative = source.relative_to(template)
        relative = relative.with_name(RENAMED.get(relative.name, relative.name))
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / relative)
        written.append(relative)
    if this_pc is not None:
        targets = folder / TARGETS_YAML
        write_text(targets, _put_first(this_pc, targets.read_text(encoding="utf-8")))
    for name in SCHEMAS:
        relative = Path("schemas", f"{name}.schema.json")
        write_text(folder / relative, schema_text(name))
        written.append(relative)
    return sorted(written)


def _put_first(target: TargetWords, text: str) -> str:
    """Return the text of a targets.yaml with the target inserted before all others."""
    (own,) = targets_text(replace(target, name=THIS_PC, data={**target.data, "tune": {"trials": 60}})).split(
        "targets:\n"
    )[1:]
    lines = own.splitlines()
    lines[0] += " # this machine, with every instruction set of its CPU"
    lines[-1] += " # a short search, about a minute; without this line `doit` searches longer"
    return text.replace("targets:\n", "\n".join(["targets:", *lines, "", ""]), 1)
