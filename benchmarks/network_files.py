"""The networks of benchmarks/networks/models.yaml as files, for benchmarks that take names.

python benchmarks/network_files.py [NAME …]

Fetches or makes these, by default those that benchmarks time, into build/networks; prints which cannot be had.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import cache
from pathlib import Path

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.files import publish
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import InputSpec, ModelSpec
from tvmbuild.config import load_project
from tvmbuild.engine.step_inputs import list_local_imports
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.export import obtain_model

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "networks"
UNSEEN = FOLDER / "unseen"
"""The networks that were not used in this project's development."""
ATTENTION = FOLDER / "attention"
"""Networks with attention."""
MODERN = FOLDER / "modern"
"""Networks of 2022 to 2026 with random weights, exported by PyTorch."""
ENDS = FOLDER / "ends"
"""Networks that end with their own suppression, exported by PyTorch."""
KEPT = ROOT / "build" / "networks"


@cache
def _networks() -> dict[str, tuple[ModelSpec, Path]]:
    """Return each network by its name, with the folder of the file that defines it."""
    folders = (ENDS, MODERN, UNSEEN, ATTENTION, FOLDER)
    return {model.name: (model, folder) for folder in folders for model in load_project(folder).models}


def list_networks(folder: Path = FOLDER) -> list[str]:
    """Return the names of the networks that benchmarks time by default, those of floating-point numbers."""
    return [name for name, (model, where) in _networks().items() if model.enabled and where == folder]


def find_inputs(name: str) -> tuple[InputSpec, ...]:
    """Return the network's inputs in models.yaml; empty for a network that it does not name."""
    return _networks()[name][0].inputs if name in _networks() else ()


def find_network(word: str) -> Path:
    """Return the file that ``word`` names, a path or a network's name; TvmbuildError if it cannot be had."""
    if word.endswith(".onnx"):
        if not Path(word).is_file():
            raise TvmbuildError(f"there is no file {word}", f"Name a file, or one of {', '.join(_networks())}.")
        return Path(word).resolve()
    if word not in _networks():
        near = suggest(find_nearest(word, _networks()))
        raise TvmbuildError(f"there is no network {word}", f"{near}Known are {', '.join(_networks())}.")
    kept, (model, folder) = KEPT / f"{word}.onnx", _networks()[word]
    if not kept.is_file() or kept.stat().st_mtime < _changed(model.source, folder):
        with obtain_model(model.source, folder) as found, publish(kept) as temporary:
            shutil.copyfile(found, temporary)
    return kept


def _changed(source: Source, folder: Path) -> float:
    """Return the time when the sources of the network last changed."""
    files = [] if source.export is None else [each.source for each in source.export.files]
    local = [each for each in (source, *files) if each.kind == "path" or each.export is not None]
    paths = [folder / "models.yaml", *(folder / each.location for each in local)]
    paths += [] if source.export is None else list_local_imports(folder / source.location)
    return max(path.stat().st_mtime for path in paths)


def network_file(word: str) -> Path:
    """Return the same as `find_network`, for argparse."""
    try:
        return find_network(word)
    except TvmbuildError as error:
        raise argparse.ArgumentTypeError(f"{error.message}; {error.hint}") from error


def main() -> int:
    """Fetch or make the networks; return 1 if one of them could not be had."""
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
