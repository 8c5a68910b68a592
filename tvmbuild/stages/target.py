"""The target of a compile step, as its package and the compiler describe it. This module imports no tvm."""

from __future__ import annotations

from tvmbuild.base.kept_nodes import list_kept
from tvmbuild.base.steps import CompileStep, Step
from tvmbuild.package.metadata import PackageTarget


def describe_target(step: Step[CompileStep]) -> PackageTarget:
    """Return the target of a compile step. The file with its kept nodes, if it has one, is there."""
    options = step.options
    return PackageTarget(
        options.target,
        options.kind,
        options.attributes,
        options.host,
        options.glibc,
        options.precision,
        list_kept(step),
    )
