"""A vector that describes the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.postprocess_specs import Vector
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.normalise import PlainVector, write_vector
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_output, refuse_output


@dataclass(frozen=True)
class VectorResult:
    """The vector in one output."""

    places: tuple[int, ...]
    vector: PlainVector

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`."""
        return None

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the vector [count], float32."""
        function = write_vector(self.vector, on_gpu=calls.on_gpu)
        return calls.add("vector", function, request.outputs, [((self.vector.count,), "float32")])


def describe_vector(interface: Interface, _: EntryOptions, asked: Vector) -> VectorResult:
    """Return the form of the vector. Raises TvmbuildError if the output has several axes."""
    place, info = find_output(interface, asked.outputs, "the result `vector`")
    count = math.prod(info.shape)
    if "float" not in info.dtype or max(info.shape, default=0) != count or count < 1:
        raise refuse_output("`vector` needs an output of floats with one axis", info)
    return VectorResult((place,), PlainVector(count, (info.shape, info.dtype), asked.normalise))
