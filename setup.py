"""The build step that pyproject.toml cannot express: a wheel contains the compiled device runtimes."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRuntimes(build_py):
    """Compile the libraries for every machine. An editable install skips this: it compiles on first use."""

    def run(self) -> None:
        """Run setuptools' own step, then compile."""
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from tvmbuild.package.runtime.native_build import (  # noqa: PLC0415
            MACHINES,
            RUNTIMES,
            compile_library,
        )

        for runtime in RUNTIMES:
            for machine in MACHINES:
                folder = Path(self.build_lib, "tvmbuild/package/runtime", runtime.kind, "lib", machine).absolute()
                folder.mkdir(parents=True, exist_ok=True)
                compile_library(runtime, machine, folder)


setup(cmdclass={"build_py": BuildWithRuntimes})
