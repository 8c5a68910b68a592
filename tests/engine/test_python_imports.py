from __future__ import annotations

from pathlib import Path

import pytest

from tvmbuild.engine.step_inputs import list_local_imports

FILES = {
    "export.py": "import os, net\nfrom layers import conv\nimport tools.shapes as shapes\n",
    "net.py": "def make():\n    import weights\n",
    "weights.py": "import net, export\n",
    "layers/__init__.py": "from .common import *\n",
    "layers/conv.py": "from . import norm\n",
    "layers/norm.py": "from .deep.down import thing\n",
    "layers/common.py": "",
    "layers/deep/__init__.py": "",
    "layers/deep/down.py": "from ..conv import thing\n",
    "layers/unused.py": "",
    "tools/shapes.py": "import numpy\n",
    "tools/other.py": "",
    "conv.py": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_a_script_imports_is_found_through_its_modules(folder: Path) -> None:
    found = {str(path.relative_to(folder)) for path in list_local_imports(folder / "export.py")}
    assert found == set(FILES) - {"export.py", "layers/unused.py", "tools/other.py", "conv.py"}


@pytest.mark.parametrize("content", [b"def broken(:\n", b"\0", b"\xff\xfe", b""])
def test_a_file_that_is_no_python_imports_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "export.py"
    path.write_bytes(content)
    (tmp_path / "net.py").touch()
    assert list_local_imports(path) == []


def test_a_broken_module_is_an_input_all_the_same(folder: Path) -> None:
    (folder / "net.py").write_text("def broken(:\n")
    assert folder / "net.py" in list_local_imports(folder / "export.py")
    assert folder / "layers" / "norm.py" in list_local_imports(folder / "export.py")
