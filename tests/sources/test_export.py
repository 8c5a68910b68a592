"""The user's own function as a source: real scripts in real processes, good and bad ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Export, ExportFile, Json, Source
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources import user_code
from tvmbuild.sources.export import obtain_model

pytestmark = pytest.mark.usefixtures("own_folders")
HEAD = """\
import onnx
from onnx import TensorProto, helper

def scale(by):
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    factor = helper.make_tensor("factor", TensorProto.FLOAT, [1], [by])
    nodes = [helper.make_node("Mul", ["x", "factor"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "net", tensors[:1], tensors[1:], [factor]))

"""
LINES = HEAD.count("\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "a project"
    root.mkdir()
    return root


@pytest.fixture
def write(project: Path) -> Callable[..., Source]:
    """Return a function that writes the text behind HEAD as a script and returns the source that calls its `make`."""

    def source(text: str, /, *files: ExportFile, name: str = "net.py", **arguments: Any) -> Source:
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text)
        given = FrozenMap({key: Json(json.dumps(value)) for key, value in sorted(arguments.items())})
        return Source("export", name, export=Export("make", given, files))

    return source


def refuse(source: Source, root: Path) -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught, obtain_model(source, root):
        pass
    return caught.value


def read_factor(source: Source, root: Path) -> float:
    with obtain_model(source, root) as path:
        (factor,) = onnx.load(path).graph.initializer
    assert not path.exists()
    (value,) = factor.float_data
    return float(value)


def test_arguments_and_files_reach_the_function(project: Path, tmp_path: Path, write: Callable[..., Source]) -> None:
    own, away = project / "own.txt", tmp_path / "down load.bin"
    own.write_text("2")
    away.write_text("3")
    digest = hashlib.sha256(b"3").hexdigest()
    files = (
        ExportFile("own", Source("path", "own.txt")),
        ExportFile("fetched", Source("url", away.as_uri(), None, digest)),
    )
    text = """
from pathlib import Path

def make(own, fetched, shape, deep, text, none=1):
    assert (own, fetched.name, type(own)) == (Path.cwd() / "own.txt", "down load.bin", type(fetched))
    assert (shape, deep, text, none) == ([1, 2.5], {"a": [True]}, "no", None)
    return scale(int(own.read_text()) * int(fetched.read_text()))
"""
    source = write(text, *files, shape=[1, 2.5], deep={"a": [True]}, text="no", none=None)
    assert read_factor(source, project) == 6.0


def test_a_script_finds_the_modules_beside_it_and_not_those_of_the_project(
    project: Path, write: Callable[..., Source]
) -> None:
    source = write(
        "from beside import FACTOR\ndef make(): return scale(FACTOR)\n", name="tools/onnx.py"
    )  # named as the library
    (project / "tools" / "beside.py").write_text("FACTOR = 5\n")
    (project / "json.py").write_text("raise RuntimeError('a file of the project')\n")
    assert read_factor(source, project) == 5.0


def test_much_output_goes_through(
    project: Path, write: Callable[..., Source], capfd: pytest.CaptureFixture[str]
) -> None:
    text = "import sys\nprint(('x' * 99 + '\\n') * 20_000)\nsys.stderr.write('done')\ndef make(): return scale(1)\n"
    assert read_factor(write(text), project) == 1.0
    said = capfd.readouterr()
    assert said.out.count("x" * 99) == 20_000
    assert said.err == "done"


def test_a_crash_after_the_model_is_written_harms_nobody(project: Path, write: Callable[..., Source]) -> None:
    assert (
        read_factor(write("import atexit, os\natexit.register(os.abort)\ndef make(): return scale(4)\n"), project)
        == 4.0
    )


DIVIDED = f"""\
net.py:{LINES + 2}: in build: ZeroDivisionError: division by zero
  | net.py:{LINES + 5}: in make: return build(0)
  | net.py:{LINES + 2}: in build: return scale(1 / width)"""

BAD: dict[str, tuple[str, str, str]] = {
    "syntax": ("def make(:\n", f"net.py:{LINES + 1}: SyntaxError: invalid syntax", "Correct the function."),
    "raises": (
        "def make():\n    raise ValueError('the width is odd\\nand more')\n",
        f"net.py:{LINES + 2}: in make: ValueError: the width is odd",
        "Correct the function.",
    ),
    "raises further in": (
        "def build(width):\n    return scale(1 / width)\n\ndef make():\n    return build(0)\n",
        DIVIDED,
        "Correct the function.",
    ),
    "raises in a library": (
        "def make():\n    return onnx.load('absent.onnx')\n",
        f"net.py:{LINES + 2}: in make: FileNotFoundError: [Errno 2] No such file or directory: 'absent.onnx'",
        "Correct the function.",
    ),
    "exits": (
        "import sys\ndef make():\n    sys.exit('enough')\n",
        f"net.py:{LINES + 3}: in make: it called sys.exit('enough')",
        "Correct the function.",
    ),
    "asks": (
        "def make():\n    return input('width? ')\n",
        f"net.py:{LINES + 2}: in make: EOFError: EOF when reading a line",
        "Correct the function.",
    ),
    "needs a module": (
        "def make():\n    import torch_that_is_not_here\n",
        f"net.py:{LINES + 2}: in make: ModuleNotFoundError: No module named 'torch_that_is_not_here'",
        "put it at torch_that_is_not_here.py.",
    ),
    "too large": (
        "from google.protobuf.message import EncodeError\ndef make():\n    raise EncodeError('Failed to serialize')\n",
        f"net.py:{LINES + 3}: in make: EncodeError: Failed to serialize",
        "larger than 2 GB",
    ),
    "misspelt function": (
        "def mak(): pass\n",
        "net.py has no function make; its functions are scale, mak",
        "Did you mean mak? Correct `export:` under the model's `source:` in models.yaml.",
    ),
    "no function": ("make = 3\n", "make in net.py is a int and no function", "Name a function."),
    "returns nothing": (
        "def make(): scale(1)\n",
        "net.py:make returned NoneType, not an onnx.ModelProto",
        "End it with `return model`.",
    ),
    "returns a path": (
        "def make(): return 'net.onnx'\n",
        "net.py:make returned str, not an onnx.ModelProto",
        "Return `onnx.load(path)`.",
    ),
    "returns bytes": (
        "def make(): return scale(1).SerializeToString()\n",
        "net.py:make returned bytes, not an onnx.ModelProto",
        "Return `onnx.load_from_string(data)`.",
    ),
    "returns torch's program": (
        "class Program:\n    model_proto = scale(1)\ndef make(): return Program()\n",
        "net.py:make returned net.Program, not an onnx.ModelProto",
        "Return its `.model_proto`.",
    ),
    "returns an empty model": (
        "def make(): return onnx.ModelProto()\n",
        "net.py:make returned an onnx.ModelProto without a graph",
        "Return a whole model.",
    ),
    "aborts": (
        "import os\ndef make():\n    os.abort()\n",
        f"net.py:{LINES + 3}: in make: net.py:make crashed with SIGABRT",
        "at the end of the log.",
    ),
    "is killed": (
        "import os\ndef make():\n    os.kill(os.getpid(), 9)\n",
        "net.py:make was killed (SIGKILL), most likely because memory ran out",
        "Free memory",
    ),
    "ends the process": (
        "import os\ndef make():\n    os._exit(0)\n",
        "net.py:make ended its process with the status 0 and returned no model",
        "Leave out os._exit",
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", BAD)
def test_what_goes_wrong_is_said_with_its_place(name: str, project: Path, write: Callable[..., Source]) -> None:
    text, message, hint = BAD[name]
    error = refuse(write(text), project)
    assert error.message == message
    assert hint in (error.hint or "")


def test_only_lines_of_the_project_count_as_the_users(tmp_path: Path) -> None:
    root, script = tmp_path / "project", tmp_path / "tools" / "net.py"
    own = [root / "layers.py", script, script.parent / "beside.py"]
    checkout = Path(user_code.__file__).parents[2]  # tvmbuild's, as a project
    others = [Path(onnx.__file__), Path(json.__file__), tmp_path / "x.py", root / ".venv/lib/site-packages/torch/nn.py"]
    assert [user_code.is_own(path, root, script) for path in own] == [True] * 3
    assert [user_code.is_own(path, root, script) for path in others] == [False] * 4
    assert not user_code.is_own(Path(user_code.__file__), checkout, checkout / "examples" / "net.py")


def test_missing_torch_names_the_extra(project: Path, write: Callable[..., Source]) -> None:
    for module in ("torch", "onnxscript"):
        error = refuse(write(f"raise ModuleNotFoundError('No module named {module}', name='{module}.nn')\n"), project)
        assert "`pip install 'tvmbuild[torch]'`" in (error.hint or "")


def test_a_module_that_torch_misses_is_found_in_the_cause(project: Path, write: Callable[..., Source]) -> None:
    text = """
def make():
    try:
        raise ModuleNotFoundError("No module named 'onnxscript'", name="onnxscript")
    except ModuleNotFoundError as error:
        raise RuntimeError("the exporter is not complete") from error
"""
    error = refuse(write(text), project)
    assert error.message.endswith("in make: RuntimeError: the exporter is not complete")
    assert "`pip install 'tvmbuild[torch]'`" in (error.hint or "")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            {"widht": 3},
            "net.py: make(width, depth=1) has no parameter widht",
            "Did you mean width? ",
        ),
        ({}, "net.py: make(width, depth=1) missing a required argument: 'width'", "Correct `arguments:` and `files:`"),
    ],
)
def test_arguments_that_do_not_fit(
    project: Path, write: Callable[..., Source], arguments: dict[str, int], message: str, hint: str
) -> None:
    error = refuse(write("def make(width, depth=1): return scale(width)\n", **arguments), project)
    assert error.message == message
    assert hint in (error.hint or "")


def test_weights_in_another_file_are_refused(project: Path, write: Callable[..., Source]) -> None:
    text = """
def make():
    model = scale(1)
    (factor,) = model.graph.initializer
    factor.ClearField("float_data")
    factor.raw_data = b"1234"  # that alone can be external
    onnx.save(model, "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    return onnx.load("net.onnx", load_external_data=False)
"""
    source = write(text)
    error = refuse(source, project)
    assert error.message == "net.py:make returned a model whose weights are in another file (factor)"


def test_a_file_that_cannot_be_fetched_is_said_before_the_function_runs(
    project: Path, write: Callable[..., Source]
) -> None:
    absent = Source("url", (project / "absent.bin").as_uri(), None, "0" * 64)
    source = write("def make(weights):\n    open('ran', 'w')\n    return scale(1)\n", ExportFile("weights", absent))
    assert "absent.bin" in refuse(source, project).message
    assert not (project / "ran").exists()
