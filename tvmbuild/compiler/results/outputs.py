"""The outputs of a network that a result reads, and the size of the picture that it takes."""

from __future__ import annotations

from collections.abc import Sequence

from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.compiler.interface import Interface
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.preprocess import find_rules, find_sizes

_PADDED = 0.1
"""The largest padding inside a network, as a share of a side: 375 rows become 384."""


def find_outputs(interface: Interface, names: Sequence[str], count: int, said: str) -> tuple[int, ...]:
    """Return the places of the outputs with these names, or the first ``count`` outputs if there are no names.

    Raises TvmbuildError if there are none or others; ``said`` is the kind of result in its message.
    """
    known = [each.name for each in interface.outputs]
    for name in names:
        if name not in known:
            raise TvmbuildError(
                f"{interface.model} has no output {name}; its outputs are {', '.join(known)}",
                "correct its `postprocess` in models.yaml",
            )
    places = tuple(known.index(name) for name in names) or tuple(range(min(count, len(known))))
    if len(places) != count:
        raise TvmbuildError(
            f"{said} is in {count} outputs; {interface.model} has or names {len(places)}",
            "correct its `postprocess` in models.yaml",
        )
    return places


def find_output(interface: Interface, names: Sequence[str], said: str) -> tuple[int, TensorInfo]:
    """Return the place and the description of the only output that a result reads."""
    (place,) = find_outputs(interface, names, 1, said)
    if interface.outputs[place].counts:
        raise refuse_counted(said, interface.outputs[place])
    return place, interface.outputs[place]


def refuse_output(said: str, info: TensorInfo) -> TvmbuildError:
    """Return the error that an output does not have the form ``said``."""
    return TvmbuildError(
        f"{said}; {info.name} is {list(info.shape)}",
        "correct `output` of its `postprocess` in models.yaml, or leave `postprocess` out",
    )


def refuse_counted(said: str, info: TensorInfo) -> TvmbuildError:
    """Return the error that a result cannot be made from an output whose length depends on data."""
    return TvmbuildError(
        f"{said} cannot be made from {info.name} {list(info.shape)}, because its length depends on data",
        "choose `boxes` with a form whose boxes have a score and a class, for example `end2end` or `separate`",
    )


def find_input_size(interface: Interface, rules: Preprocess | None) -> tuple[int, int]:
    """Return height and width of the picture that the network takes.

    Raises TvmbuildError if its first input is not a picture and the model has no `preprocess`.
    """
    if rules is not None:
        info = ModelInputs(interface.model, interface.inputs, rules)
        found, tensor = find_rules(info)
        return find_sizes(info, found, tensor)[:2]
    shape = interface.inputs[0].shape if interface.inputs else ()
    if len(shape) != 4:
        raise TvmbuildError(
            f"this result needs the size of a picture, and {interface.model} takes none as its first input",
            "add `preprocess` to the model in models.yaml",
        )
    return (shape[2], shape[3]) if shape[1] in (1, 3) else (shape[1], shape[2])


def check_proportions(said: str, info: TensorInfo, found: tuple[int, int], size: tuple[int, int]) -> None:
    """Raise TvmbuildError if a map of ``found`` rows and columns is not the picture of ``size``, scaled.

    A cell may be missing or too much, because networks round differently, and a tenth, because some pad inside;
    ``said`` is the result in the message.
    """
    (rows, columns), (height, width) = found, size
    one, other = rows * width, columns * height
    if abs(one - other) > max(height, width) + max(one, other) * _PADDED:
        raise refuse_output(f"{said} needs a map with the proportions of the input of {height} by {width}", info)


def is_channels_last(interface: Interface, rules: Preprocess | None) -> bool:
    """Return whether pictures have their channels in the last dimension."""
    if rules is not None:
        return rules.layout == "NHWC"
    shape = interface.inputs[0].shape if interface.inputs else ()
    return len(shape) == 4 and shape[1] not in (1, 3)
