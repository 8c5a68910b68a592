"""Darknet's layers as nodes of ONNX, but those of boxes."""  # noqa: INP001

from __future__ import annotations

import numpy as np
from darknet_files import Section
from darknet_graph import Network, Value

EPSILON = 1e-5
"""The number that darknet adds to a variance (on CPUs it once added 1e-6 to the deviation instead)."""


def add_convolution(network: Network, section: Section) -> Value:
    """Add a convolution, its batch normalisation folded into its weights."""
    source, count, size = network.last, section.number("filters"), section.number("size", 1)
    stride, groups = section.number("stride", 1), section.number("groups", 1)
    padding = size // 2 if section.number("pad", 0) else section.number("padding", 0)
    if source.channels % groups or count % groups:
        raise ValueError(
            f"{section.place}: {groups} groups divide {source.channels} channels or {count} filters unevenly"
        )
    shift = network.weights.take(count).astype(np.float64)
    factor = np.ones(count)
    if section.number("batch_normalize", 0):
        scale, mean, variance = network.weights.take(3, count).astype(np.float64)
        factor = scale / (np.sqrt(variance + EPSILON))
        shift -= mean * factor
    kernel = network.weights.take(count, source.channels // groups, size, size) * factor[:, None, None, None]
    parameters = [network.constant(kernel), network.constant(shift)]
    shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [padding] * 4, "group": groups}
    name = network.add("Conv", [source.name, *parameters], **shape)
    height, width = ((length + 2 * padding - size) // stride + 1 for length in (source.height, source.width))
    return Value(network.activate(section, name, "logistic"), count, height, width)


def add_maxpool(network: Network, section: Section) -> Value:
    """Add a pooling; darknet pads it by ``size - 1`` in all, the smaller half above and left."""
    source, stride = network.last, section.number("stride", 1)
    size = section.number("size", stride)
    padding = section.number("padding", size - 1)
    before = padding // 2
    lengths = np.array([source.height, source.width])
    results = (lengths + padding - size) // stride + 1
    after = np.maximum(0, (results - 1) * stride + size - lengths - before)
    shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [before, before, *after.tolist()]}
    return Value(network.add("MaxPool", [source.name], **shape), source.channels, *results.tolist())


def add_avgpool(network: Network, _: Section) -> Value:
    """Add the means of whole channels."""
    source = network.last
    return Value(network.add("GlobalAveragePool", [source.name]), source.channels, 1, 1)


def add_softmax(network: Network, section: Section) -> Value:
    """Add the probabilities of the classes of a picture."""
    source = network.last
    if section.number("groups", 1) != 1 or (source.height, source.width) != (1, 1):
        raise ValueError(f"{section.place}: a softmax is known of one group, of a map of 1x1: put [avgpool] before it")
    return Value(network.add("Softmax", [source.name], axis=1), source.channels, 1, 1)


def add_dropout(network: Network, _: Section) -> Value:
    """Return the layer before, because nothing is dropped after the training."""
    return network.last


def add_route(network: Network, section: Section) -> Value:
    """Return an earlier layer, or several joined, or one of the equal groups of channels of each."""
    values, groups, group = network.find(section, "layers"), section.number("groups", 1), section.number("group_id", 0)
    if not 0 <= group < groups or any(value.channels % groups for value in values):
        raise ValueError(f"{section.place}: group_id={group} of groups={groups} is no equal part of the channels")
    names = []
    for value in values:
        part = value.channels // groups
        ends = [network.constant([end], np.int64) for end in (group * part, (group + 1) * part, 1)]
        names.append(value.name if groups == 1 else network.add("Slice", [value.name, *ends]))
    name = names[0] if len(names) == 1 else network.add("Concat", names, axis=1)
    return Value(name, sum(value.channels for value in values) // groups, values[0].height, values[0].width)


def add_shortcut(network: Network, section: Section) -> Value:
    """Add earlier layers to the last one."""
    source, name = network.last, network.last.name
    for value in network.find(section, "from"):
        shapes = [(each.channels, each.height, each.width) for each in (value, source)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{section.place}: a shortcut adds layers of the same shape, not {shapes[0]} to {shapes[1]}"
            )
        name = network.add("Add", [name, value.name])
    return Value(network.activate(section, name, "linear"), source.channels, source.height, source.width)


def add_reorg(network: Network, section: Section) -> Value:
    """Move places into channels in darknet's own order.

    Darknet reads the source as if it had 1 / stride² of its channels and stride times its sides, takes the places
    apart, and reads the result as stride² times the channels and 1 / stride of the sides.
    """
    source, stride = network.last, section.number("stride", 1)
    channels, height, width = source.channels, source.height, source.width
    if channels % stride**2 or height % stride or width % stride:
        raise ValueError(f"{section.place}: stride={stride} divides {channels} channels of {height}x{width} unevenly")
    shape = [1, channels // stride**2, height, stride, width, stride]
    name = network.add("Reshape", [source.name, network.constant(shape, np.int64)])
    name = network.add("Transpose", [name], perm=[0, 3, 5, 1, 2, 4])
    result = [channels * stride**2, height // stride, width // stride]
    return Value(network.add("Reshape", [name, network.constant([1, *result], np.int64)]), *result)


def add_upsample(network: Network, section: Section) -> Value:
    """Repeat each element ``stride`` times in both directions."""
    source, stride = network.last, section.number("stride", 2)
    nearest = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    name = network.add("Resize", [source.name, "", network.constant([1, 1, stride, stride])], **nearest)
    return Value(name, source.channels, source.height * stride, source.width * stride)
