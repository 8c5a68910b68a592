"""The grid of models and targets in the HTML report.

Each cell links to its section and has the values by which the page sorts and filters.
"""

from __future__ import annotations

from tvmbuild.report.cells import CellReport
from tvmbuild.report.html_parts import NOTHING, Html, cell_id, join, tag, wrap_name
from tvmbuild.report.matrix import DOUBTFUL, SIGNS, Kind, Matrix, describe_face

TITLE = "Models by targets"


def draw_grid(matrix: Matrix) -> Html:
    """Return the grid, or nothing if there are no cells."""
    if not matrix.cells:
        return NOTHING
    heads = [tag("th", "model", scope="col"), *(tag("th", name, scope="col") for name in matrix.targets)]
    rows = [
        tag(
            "tr",
            tag("th", wrap_name(model), scope="row"),
            *(_draw_cell(matrix.cells.get((model, target))) for target in matrix.targets),
        )
        for model in matrix.models
    ]
    table = tag(
        "table",
        tag("caption", "The state of each model on each target, with its latency, ratio and Tasks with a record"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", join(rows, "\n")),
        id="matrix",
        class_="matrix",
    )
    return tag("div", table, class_="wide", role="region", aria_label=TITLE)


def _draw_cell(cell: CellReport | None) -> Html:
    if cell is None:
        return tag("td", tag("span", "-", title="the model is not built for this target"), class_="none")
    face = describe_face(cell)
    parts = [tag("b", tag("i", face.sign, aria_hidden="true"), " ", face.main)]
    parts += [tag("span", face.ratio)] if face.ratio else []
    parts += [tag("small", face.coverage)] if face.coverage else []
    parts += [tag("span", f"{face.framed} ms", class_="framed")] if face.framed else []
    link = tag(
        "a",
        *parts,
        href=f"#{cell_id(cell.name)}",
        title=f"{cell.name}: {face.sentence}",
        aria_label=f"{cell.model} on {cell.target}: {face.sentence}",
    )
    result, rival = cell.result, cell.rival
    return tag(
        "td",
        link,
        class_=f"{face.kind} g{face.grade}" if face.grade else face.kind,
        data_state=face.kind,
        data_ms=f"{result.latency.median.value:.5g}" if result and face.kind not in ("failed", "built") else None,
        data_ratio=f"{rival.ratio.value:.4g}" if rival and face.ratio else None,
        data_covered=f"{cell.covered / cell.tasks:.3g}" if cell.tasks and cell.covered is not None else None,
    )


def draw_legend(matrix: Matrix, baseline: str) -> Html:
    """Return the legend of the signs in this matrix. ``baseline`` is the name of the cells' baseline."""
    faces = [describe_face(cell) for cell in matrix.cells.values()]
    found: set[Kind] = {face.kind for face in faces}
    items = [
        tag("li", tag("span", sign, class_=f"chip {kind}", aria_hidden="true"), f" {meaning}")
        for kind, (sign, meaning) in SIGNS.items()
        if kind in found
    ]
    if any(face.sign.endswith(DOUBTFUL) for face in faces):
        chip = tag("span", DOUBTFUL, class_="chip", aria_hidden="true")
        items.append(tag("li", chip, " doubtful: the machine or the calls were not quiet"))
    says = f"In a cell: the median latency, TVM's time over {baseline}'s, and how many of its Tasks have a record."
    says += " The arrow has the time from the frame to the result." if any(face.framed for face in faces) else ""
    return join([tag("ul", *items, class_="legend"), tag("p", says, class_="dim")]) if items else NOTHING
