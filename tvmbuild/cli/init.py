"""`tvmbuild init`: a working project in an empty folder."""

from __future__ import annotations

import argparse
import shutil
from importlib.resources import files
from pathlib import Path

from tvmbuild.base.files import write_text
from tvmbuild.config.schema import SCHEMAS, schema_text
from tvmbuild.errors import TvmbuildError

HELP = "write a working project into an empty folder: both YAML files, a small model and its records"

RENAMED = {"gitignore": ".gitignore", "gitattributes": ".gitattributes", "dodo.txt": "dodo.py"}
"""Kept under other names in the package: git would obey two of them, and the third is no module of ours."""
IGNORED = frozenset({".git", ".venv"})
"""What an empty folder may hold."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", nargs="?", default=".", type=Path, help="made when it does not exist (default: here)")


def run(args: argparse.Namespace) -> int:
    """Copy the template; refuses a folder that holds anything."""
    folder: Path = args.folder
    if folder.exists() and not folder.is_dir():
        raise TvmbuildError(f"{folder} is a file", "Name a folder that is empty or does not exist.")
    present = sorted({path.name for path in folder.iterdir()} - IGNORED) if folder.exists() else []
    if present:
        raise TvmbuildError(f"{folder.resolve()} is not empty: it holds {present[0]}", "Name an empty folder.")
    try:
        written = write_project(folder)
    except OSError as error:
        raise TvmbuildError(
            f"cannot write to {folder}: {error.strerror}", "Name a folder that you may write."
        ) from error
    records = [path for path in written if path.parts[0] == "records"]
    print("\n".join(f"wrote {folder / path}" for path in written if path not in records))
    print(f"wrote {folder / 'records'} ({len(records)} files: the model is tuned already)")
    place = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    print(f"next: {place}doit")
    return 0


def write_project(folder: Path) -> list[Path]:
    """Write the template's files and the schemas that the YAML files name; return their relative paths, sorted."""
    template = Path(str(files("tvmbuild") / "templates" / "project"))
    written = []
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        relative = source.relative_to(template)
        relative = relative.with_name(RENAMED.get(relative.name, relative.name))
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / relative)
        written.append(relative)
    for name in SCHEMAS:
        relative = Path("schemas", f"{name}.schema.json")
        write_text(folder / relative, schema_text(name))
        written.append(relative)
    return sorted(written)
