"""An exported program run by torch: its inputs and outputs by name, and the outputs' values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from tvmbuild.errors import TvmbuildError

STEPS = (1, -1, 2, -2, 4, 8, 16, 32, 0)
"""The differences of open dimensions from their exported size, tried in turn until torch accepts one."""
RUN_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)
"""The errors that torch raises if it cannot run a program."""
_STATEFUL = "a package keeps nothing between two runs: export it after .eval(), with its state as inputs and outputs"
_SHORT = 300


@dataclass(frozen=True)
class ComputedSet:
    """The inputs and outputs of one run, by name."""

    feeds: dict[str, np.ndarray]
    results: dict[str, np.ndarray]


class Program:
    """A program from `torch.export.load`."""

    def __init__(self, exported: Any) -> None:
        self.exported = exported
        specs = exported.graph_signature.input_specs
        self._arguments = [spec.arg for spec in specs if spec.kind == InputKind.USER_INPUT]
        self._values = {node.name: node.meta["val"] for node in exported.graph.find_nodes(op="placeholder")}

    @cached_property
    def names(self) -> list[str]:
        """The names of the non-constant inputs, as the network's code calls them: `batch_image` of batch["image"]."""
        return [each.name for each in self._arguments if not isinstance(each, ConstantArgument)]

    @property
    def size(self) -> int:
        """The size of the weights and constants, in bytes."""
        tensors = {**self.exported.state_dict, **self.exported.constants}.values()
        return sum(each.nbytes for each in tensors if isinstance(each, torch.Tensor))

    def check(self) -> None:
        """Raise TvmbuildError if a run changes the state of the next one, or if ONNX cannot express an input."""
        for name in self.names:
            value = self._values[name]
            if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
                raise TvmbuildError(f"its input {name} is bfloat16", "export it with inputs of float32 or float16")
        signature = self.exported.run_decompositions({}).graph_signature  # as it is saved, it may write in place
        changed = sorted(signature.buffers_to_mutate.values())
        if changed:
            raise TvmbuildError(f"it changes its buffers at every run: {_list(changed)}", _STATEFUL)
        written = sorted(signature.user_inputs_to_mutate.values())
        if written:
            raise TvmbuildError(
                f"it writes into its inputs: {_list(written)}", "export it with copies: `x = x.clone()`"
            )

    def compute_sets(self) -> list[ComputedSet]:
        """Return runs on the exported example inputs, and on drawn values with other sizes of open dimensions.

        TvmbuildError if torch cannot run it, or if it draws random numbers.
        """
        given = self._examples()
        try:
            first = self._compute(given)
            again = self._compute(given)
        except RUN_ERRORS as error:
            raise TvmbuildError(
                f"torch cannot run it on {'what it was exported with' if self._has_examples else 'drawn inputs'}: "
                f"{shorten(error)}",
                "export it again, and save it with its example inputs",
            ) from error
        random = [name for name in first.results if not _same(first.results[name], again.results[name])]
        if random:
            raise TvmbuildError(
                f"it draws random numbers: two runs on the same inputs differ in {_list(random)}",
                "export it after .eval(); give the random numbers to the model as an input",
            )
        others = (self._try(self._draw(given, self._sizes(step))) for step in STEPS)
        second = next((each for each in others if each is not None), None)
        return [first] if second is None else [first, second]

    def _try(self, leaves: list[Any]) -> ComputedSet | None:
        """Return the run; None if the program's own guards on sizes refuse it."""
        try:
            return self._compute(leaves)
        except RUN_ERRORS:
            return None

    @cached_property
    def _has_examples(self) -> bool:
        found = self.exported.example_inputs
        return found is not None and len(pytree.tree_leaves(found)) == len(self._arguments)

    def _examples(self) -> list[Any]:
        if self._has_examples:
            return list(pytree.tree_leaves(self.exported.example_inputs))
        return self._draw([None] * len(self._arguments), self._sizes(0))

    def _sizes(self, step: int) -> dict[Any, int]:
        """Return a size for every symbol of the inputs' shapes: the exported one, with ``step`` added if in range."""
        found = {}
        for value in self._values.values():
            for size in (value, *getattr(value, "shape", ())):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol and size.node.hint is not None:
                    found[size.node.expr] = size.node.hint
        for symbol, hint in found.items():
            limits = self.exported.range_constraints.get(symbol)
            if limits is None or (bool(limits.lower <= hint + step) and bool(hint + step <= limits.upper)):
                found[symbol] = hint + step
        return found

    def _draw(self, given: list[Any], sizes: dict[Any, int]) -> list[Any]:
        random = np.random.RandomState(0)
        leaves = []
        for argument, example in zip(self._arguments, given, strict=True):
            if isinstance(argument, ConstantArgument):
                leaves.append(argument.value)
                continue
            value = self._values[argument.name]
            if isinstance(value, torch.Tensor):
                shape = tuple(_find_size(size, sizes) for size in value.shape)
                leaves.append(_draw_tensor(random, shape, value.dtype, example))
            else:
                leaves.append(example if example is not None else _find_size(value, sizes))
        return leaves

    def _compute(self, leaves: list[Any]) -> ComputedSet:
        clones = [each.clone() if isinstance(each, torch.Tensor) else each for each in leaves]
        args, kwargs = pytree.tree_unflatten(clones, self.exported.call_spec.in_spec)
        with torch.no_grad():
            results = self._module(*args, **kwargs)
        named = zip(self._arguments, leaves, strict=True)
        feeds = {each.name: _to_array(leaf) for each, leaf in named if not isinstance(each, ConstantArgument)}
        return ComputedSet(feeds, self._name_results(results))

    @cached_property
    def _module(self) -> Any:
        return self.exported.module()

    def _name_results(self, results: Any) -> dict[str, np.ndarray]:
        """Name the outputs by their keys; by their places if they have no keys, or if two names would be equal."""
        leaves = [(path, leaf) for path, leaf in pytree.tree_flatten_with_path(results)[0] if leaf is not None]
        for (path, leaf), spec in zip(leaves, self._list_outputs(), strict=True):
            if isinstance(spec, ConstantArgument) or not isinstance(leaf, (torch.Tensor, int)):
                raise TvmbuildError(
                    f"its output {_name_path(path)} is {leaf!r}, no tensor", "export it with only tensors as outputs"
                )
        names = [_name_path(path) for path, _ in leaves]
        counts = Counter([*names, *self.names])
        if any(count > 1 for count in counts.values()):
            names = [f"output_{index}" if counts[name] > 1 else name for index, name in enumerate(names)]
        return {name: _to_array(leaf) for name, (_, leaf) in zip(names, leaves, strict=True)}

    def _list_outputs(self) -> list[Any]:
        arguments = (spec.arg for spec in self.exported.graph_signature.output_specs)
        return [each for each in arguments if not (isinstance(each, ConstantArgument) and each.value is None)]


def shorten(error: BaseException) -> str:
    """Return the error's kind and first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _list(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _find_size(size: Any, sizes: dict[Any, int]) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    known = expression.free_symbols <= sizes.keys()
    return int(expression.subs(sizes)) if known else int(size.node.hint)


def _draw_tensor(
    random: np.random.RandomState, shape: tuple[int, ...], dtype: torch.dtype, example: torch.Tensor | None
) -> torch.Tensor:
    """Draw floats from [-1, 1); integers are the example's, in another order, or 0 and 1 if these are all 0."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.from_numpy(random.uniform(-1, 1, shape)).to(dtype)
    if example is None or example.numel() == 0 or not example.any() or (dtype == torch.bool and example.all()):
        return torch.from_numpy(random.randint(0, 2, shape)).to(dtype)
    return torch.from_numpy(np.resize(np.roll(example.numpy().reshape(-1), 1), shape)).to(dtype)


def _to_array(leaf: Any) -> np.ndarray:
    if isinstance(leaf, torch.Tensor):
        leaf = leaf.detach().resolve_conj().resolve_neg()
        return np.asarray((leaf.float() if leaf.dtype == torch.bfloat16 else leaf).numpy())
    return np.asarray(leaf)


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    if left.shape != right.shape:
        return False
    return bool(np.allclose(left, right, rtol=1e-3, atol=1e-4, equal_nan=left.dtype.kind in "fc"))


def _name_path(path: tuple[Any, ...]) -> str:
    parts = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
    numbered = not path or isinstance(path[0], pytree.SequenceKey)
    return "_".join(["output", *parts] if numbered else parts)
