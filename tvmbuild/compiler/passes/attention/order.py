"""In which order an attention's output best lies: so that the transposes after it move nothing."""

from __future__ import annotations

from tvm import relax

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.kernels.attention.views import View, dense
from tvmbuild.compiler.passes.attention.pattern import Graph


def choose_order(graph: Graph, product: relax.Call, heads: tuple[int, ...], sizes: tuple[int, int]) -> int:
    """Return before how many of the heads the output's rows best lie; ``sizes``: rows and width of a head."""
    chain = _follow(graph, product)
    for after in range(len(heads) + 1 if chain else 0):
        view: View | None = as_written(heads, sizes, after).reshape(static_shape(product) or ())
        for call in chain:
            view = None if view is None else _apply(view, call)
        if view is not None and view.is_dense():
            return after
    return len(heads)


def rows_last(count: int, after: int) -> list[int]:
    """Return the axes of the output in the order heads, rows, width."""
    return [*range(after), *range(after + 1, count + 1), after, count + 1]


def as_written(heads: tuple[int, ...], sizes: tuple[int, int], after: int) -> View:
    """Return [heads…, rows, width] of an output whose rows lie before all but ``after`` of the heads."""
    shape = (*heads[:after], sizes[0], *heads[after:], sizes[1])
    return dense(shape).permute(rows_last(len(heads), after))


def _follow(graph: Graph, product: relax.Call) -> list[relax.Call]:
    """Return the reshapes and transposes, up to the last transpose, that alone use the product's result."""
    variable = next((each for each, value in graph.values.items() if hash(value) == hash(product)), None)
    chain: list[relax.Call] = []
    while variable is not None and len(users := graph.users.get(variable, [])) == 1:
        variable = users[0]
        value = graph.values[variable]
        if is_call(value, "relax.permute_dims") or is_call(value, "relax.reshape"):
            chain.append(value)
        elif not isinstance(value, relax.Var):
            break
    while chain and not is_call(chain[-1], "relax.permute_dims"):
        chain.pop()
    return chain


def _apply(view: View, call: relax.Call) -> View | None:
    if is_call(call, "relax.permute_dims"):
        return view.permute([int(axis) for axis in call.attrs.axes or range(len(view.axes))[::-1]])
    return view.reshape(static_shape(call) or ())
