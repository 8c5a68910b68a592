"""The results of a package as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tvmbuild.cli.run.output import UNKNOWN
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.results import Box, Class, Map, Output, Point, Result, Results, Text, Vector

_SHOWN = 4
"""The number of values of a vector that are printed."""
Row = dict[str, str]
"""Heading → text of a line of the table."""
_WORDS = ("class", "point", "text", "values", "output", "dtype", "shape")
"""The headings of columns that are not numbers."""


def print_results(console: Console, info: PackageInfo, results: Results) -> None:
    """Print a table for each kind: a line for each result, the best first, and for each class of a map."""
    for kind, found in results.by_kind.items():
        title = f"{info.model} for {info.target.name}"
        _print_kind(console, title if len(results.by_kind) == 1 else f"{title}: {kind}", found)


def _print_kind(console: Console, title: str, results: Sequence[Result]) -> None:
    rows = [row for each in results for row in _ROWS_BY[type(each)](each)]
    console.print(title, style="italic", highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in dict.fromkeys(key for row in rows for key in row):
        table.add_column(heading, justify="left" if heading in _WORDS else "right")
    for row in rows:
        table.add_row(*map(escape, row.values()))
    console.print(table)
    if not results:
        console.print("nothing found")


def _name(label: str | None, index: int) -> str:
    return (str(index) if label is None else label) or UNKNOWN


def _list_box(box: Box) -> list[Row]:
    row = {"score": f"{box.score:.3f}", "class": _name(box.label, box.index)}
    row |= {name: f"{getattr(box, name):.1f}" for name in ("x", "y", "width", "height")}
    if box.mask is not None:
        row["pixels"] = str(int(box.mask.sum()))
    return [row, *(point for each in box.points for point in _list_point(each))] if box.points else [row]


def _list_class(found: Class) -> list[Row]:
    return [{"score": f"{found.score:.3f}", "class": _name(found.label, found.index)}]


def _list_map(found: Map) -> list[Row]:
    classes = sorted(found.as_dict()["classes"], key=lambda each: -each["pixels"])
    return [
        {
            "share": f"{each['pixels'] / found.classes.size:.3f}",
            "class": _name(each["label"], each["index"]),
            "pixels": str(each["pixels"]),
        }
        for each in classes
    ]


def _list_text(found: Text) -> list[Row]:
    return [{"score": f"{found.score:.3f}", "text": found.text}]


def _list_vector(found: Vector) -> list[Row]:
    values = " ".join(f"{each:.4f}" for each in found.values[:_SHOWN].tolist())
    return [{"length": str(len(found.values)), "values": values + (" …" if len(found.values) > _SHOWN else "")}]


def _list_point(point: Point) -> list[Row]:
    name = f"point {point.index}" if point.label is None else point.label
    return [{"score": f"{point.score:.3f}", "class": name, "x": f"{point.x:.1f}", "y": f"{point.y:.1f}"}]


def _list_output(output: Output) -> list[Row]:
    return [{"output": output.name, "dtype": str(output.values.dtype), "shape": str(list(output.values.shape))}]


_ROWS_BY: Mapping[type, Callable[[Any], list[Row]]] = {
    Box: _list_box,
    Class: _list_class,
    Map: _list_map,
    Text: _list_text,
    Vector: _list_vector,
    Point: _list_point,
    Output: _list_output,
}
