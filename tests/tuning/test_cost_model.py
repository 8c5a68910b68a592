from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.compiler
STORES, FEATURES = 3, 164


def batch(rng: Any, size: int) -> tuple[list[np.ndarray], list[float]]:
    """Return candidates whose time grows with their first feature."""
    features = [rng.uniform(size=(STORES, FEATURES)).astype("float32") for _ in range(size)]
    return features, [1e-3 * (1 + float(feature[:, 0].sum())) for feature in features]


def test_the_trees_rank_candidates_and_get_better_with_each_batch() -> None:
    from tvmbuild.tuning.cost_model import GROWN, MORE, ROUNDS, WARM_UP, Trees

    rng, trees = np.random.default_rng(0), Trees(1, 0)
    trees.learn("task", *batch(rng, WARM_UP - 1))
    assert not trees.trained
    trees.learn("task", *batch(rng, WARM_UP))
    features, seconds = batch(rng, 200)
    begin = np.corrcoef(trees.predict(features), 1 / np.array(seconds))[0, 1]
    assert begin > 0.3
    rounds, known = [trees.rounds], 2 * WARM_UP - 1
    for _ in range(12):
        trees.learn("task", *batch(rng, 16))
        rounds.append(trees.rounds)
    assert np.corrcoef(trees.predict(features), 1 / np.array(seconds))[0, 1] > begin
    assert rounds[:3] == [ROUNDS, ROUNDS + MORE, ROUNDS]  # 64 candidates, 80, then half as many again
    assert max(rounds) <= ROUNDS + MORE * np.ceil((GROWN - 1) * (known + 12 * 16) / 16)


def test_failed_candidates_and_those_without_features_do_no_harm() -> None:
    from tvmbuild.tuning.cost_model import WARM_UP, Trees

    rng, trees = np.random.default_rng(0), Trees(1, 0)
    features, seconds = batch(rng, 2 * WARM_UP)
    trees.learn("failed", features[:WARM_UP], [float("inf")] * WARM_UP)
    features[0] = np.empty((0, FEATURES), "float32")
    trees.learn("task", features, [float("inf"), float("inf"), *seconds[2:]])
    assert np.isfinite(trees.predict(features[1:])).all()
