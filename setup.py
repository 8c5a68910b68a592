"""The build step that pyproject.toml cannot express: a wheel contains the compiled Vulkan runtime."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithVulkan(build_py):
    """Compile the library for every machine. An editable install skips this: it compiles on first use."""

    def run(self) -> None:
        """Run setuptools' own step, then compile."""
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from tvmbuild.package.runtime.vulkan.build import MACHINES, compile_library  # noqa: PLC0415

        for machine in MACHINES:
            folder = Path(self.build_lib, "tvmbuild/package/runtime/vulkan/lib", machine).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            compile_library(machine, folder)


setup(cmdclass={"build_py": BuildWithVulkan})
