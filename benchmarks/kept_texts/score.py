"""Scores of networks of texts against the answers in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

Outputs = Mapping[str, np.ndarray]


def nearest(outputs: Sequence[Outputs], _samples: Sequence[str], truths: Path) -> float:
    """Return the share of texts whose nearest other text is the right one."""
    return float(np.mean(np.array(list_nearest(outputs)) == json.loads(truths.read_text())))


def similarity(outputs: Sequence[Outputs], _samples: Sequence[str], truths: Path) -> float:
    """Return the rank correlation (Spearman's) of the similarities of all pairs of texts with the right ones."""
    right = np.array(json.loads(truths.read_text()))
    ours, theirs = (np.argsort(np.argsort(each)) for each in (list_similarities(outputs), right))
    return float(np.corrcoef(ours, theirs)[0, 1])


def list_similarities(outputs: Sequence[Outputs]) -> list[float]:
    """Return the similarity of each pair of texts."""
    rows = np.concatenate([each["embedding"] for each in outputs])
    return [float(each) for each in (rows @ rows.T)[np.triu_indices(len(rows), 1)]]


def list_nearest(outputs: Sequence[Outputs]) -> list[int]:
    """Return, for each text, the number of the other text whose embedding is nearest."""
    rows = np.concatenate([each["embedding"] for each in outputs])
    similar = rows @ rows.T
    np.fill_diagonal(similar, -2)
    return [int(each) for each in similar.argmax(1)]


def same_text(outputs: Sequence[Outputs], _samples: Sequence[str], truths: Path) -> float:
    """Return the share of lines that are read as they should be."""
    pairs = zip(list_texts(outputs), json.loads(truths.read_text()), strict=True)
    return float(np.mean([found == wanted for found, wanted in pairs]))


def list_texts(outputs: Sequence[Outputs]) -> list[list[int]]:
    """Return the numbers of the letters of each line, by the likeliest class of each step (CTC)."""
    texts = []
    for each in outputs:
        (values,) = each.values()
        steps = values[0].argmax(-1)
        pairs = zip(steps, [0, *steps[:-1]], strict=True)
        texts.append([int(step) for step, before in pairs if step and step != before])
    return texts
