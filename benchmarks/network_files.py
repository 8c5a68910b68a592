"""The networks of benchmarks/networks/models.yaml as files, for benchmarks that are given names.

python benchmarks/network_files.py [NAME …]

Fetches or makes these, or those that benchmarks time unless told, into build/networks; says which cannot be had.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import cache
from pathlib import Path

from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import publish
from tvmbuild.nearest import find_nearest, suggest
from tvmbuild.progress import progress_shown_by
from tvmbuild.python_imports import list_local_imports
from tvmbuild.sources.export import obtain_model
from tvmbuild.specs import InputSpec, ModelSpec, Source

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "networks"
KEPT = ROOT / "build" / "networks"


@cache
def _networks() -> dict[str, ModelSpec]:
    return {model.name: model for model in load_project(FOLDER).models}


def list_networks() -> list[str]:
    """Return the names of those that benchmarks time unless told: the ones of floating-point numbers."""
    return [name for name, model in _networks().items() if model.enabled]


def find_inputs(name: str) -> tuple[InputSpec, ...]:
    """Return what models.yaml says of the network's inputs; nothing of a network that it does not name."""
    return _networks()[name].inputs if name in _networks() else ()


def find_network(word: str) -> Path:
    """Return the file that ``word`` names, a path or a network's name; TvmbuildError where it cannot be had."""
    if word.endswith(".onnx"):
        if not Path(word).is_file():
            raise TvmbuildError(f"there is no file {word}", f"Name a file, or one of {', '.join(_networks())}.")
        return Path(word).resolve()
    if word not in _networks():
        near = suggest(find_nearest(word, _networks()))
        raise TvmbuildError(f"there is no network {word}", f"{near}Known are {', '.join(_networks())}.")
    kept = KEPT / f"{word}.onnx"
    if not kept.is_file() or kept.stat().st_mtime < _changed(_networks()[word].source):
        with obtain_model(_networks()[word].source, FOLDER) as found, publish(kept) as temporary:
            shutil.copyfile(found, temporary)
    return kept


def _changed(source: Source) -> float:
    """Return when what the network is made from was changed last."""
    files = [] if source.export is None else [each.source for each in source.export.files]
    local = [each for each in (source, *files) if each.kind == "path" or each.export is not None]
    paths = [FOLDER / "models.yaml", *(FOLDER / each.location for each in local)]
    paths += [] if source.export is None else list_local_imports(FOLDER / source.location)
    return max(path.stat().st_mtime for path in paths)


def network_file(word: str) -> Path:
    """Do what `find_network` does, for argparse."""
    try:
        return find_network(word)
    except TvmbuildError as error:
        raise argparse.ArgumentTypeError(f"{error.message}; {error.hint}") from error


def main() -> int:
    """Return 1 when one of them could not be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    failed = 0
    with progress_shown_by(lambda text: print(text, file=sys.stderr, flush=True)):
        for name in parser.parse_args().names or list_networks():
            failed |= _fetch(name)
    return failed


def _fetch(name: str) -> int:
    try:
        print(find_network(name), flush=True)
    except TvmbuildError as error:
        print(f"{name}: {error.message}\n  hint: {error.hint}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
