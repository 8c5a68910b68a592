"""A cost model for MetaSchedule: xgboost on its per-store features, trained anew after each batch, bounded.

TVM's own XGBModel trains up to 10,000 rounds, predicts at random until it has seen 100 candidates, and ignores
`tree_method`; the features and the sum-over-stores objective are TVM's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import PyCostModel
from tvm.s_tir.meta_schedule.cost_model.xgb_model import PackSum, XGBConfig
from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature
from tvm.s_tir.meta_schedule.utils import shash2hex

ROUNDS = 50
WARM_UP = 32
"""Candidates measured before predictions are trusted."""


@derived_object
class BoostedTrees(PyCostModel):  # type: ignore[misc]
    """Predicts a score in [0, 1]: the fastest known candidate's time of the same Task over the candidate's."""

    def __init__(self, threads: int, seed: int) -> None:
        super().__init__()
        self.extractor = PerStoreFeature()
        self.config = XGBConfig(nthread=threads, seed=seed).to_dict()
        self.random = np.random.default_rng(seed)
        self.features: dict[str, list[np.ndarray]] = {}
        self.seconds: dict[str, list[float]] = {}
        self.measured = 0
        self.booster: Any = None

    def load(self, path: str) -> None:
        """Not used: a model lives as long as one tune step."""
        raise NotImplementedError(path)

    def save(self, path: str) -> None:
        """Not used: a model lives as long as one tune step."""
        raise NotImplementedError(path)

    def update(self, context: Any, candidates: list[Any], results: list[Any]) -> None:
        """Learn from a measured batch."""
        group = shash2hex(context.mod)
        features = self.features.setdefault(group, [])
        seconds = self.seconds.setdefault(group, [])
        for feature, result in zip(self._extract(context, candidates), results, strict=True):
            if len(feature):
                features.append(feature)
                seconds.append(float(np.median([float(s) for s in result.run_secs])) if result.run_secs else np.inf)
                self.measured += 1
        if self.measured >= WARM_UP:
            self._train()

    def predict(self, context: Any, candidates: list[Any]) -> np.ndarray:
        """Return one score a candidate, higher is faster; random until enough was measured."""
        if self.booster is None:
            return self.random.uniform(size=len(candidates))
        data = PackSum(xs=self._extract(context, candidates), ys=None)
        scores: np.ndarray = data.predict_with_score(self.booster.predict(data.dmatrix))
        return scores.astype("float64")

    def _extract(self, context: Any, candidates: list[Any]) -> list[np.ndarray]:
        return [item.numpy().astype("float32") for item in self.extractor.extract_from(context, candidates)]

    def _train(self) -> None:
        rows = [feature for group in self.features.values() for feature in group]
        scores = np.concatenate([_scores(group) for group in self.seconds.values()])
        data = PackSum(xs=rows, ys=scores)
        self.booster = xgboost.train(
            self.config,
            data.dmatrix,
            num_boost_round=ROUNDS,
            obj=lambda predicted, _matrix: data.obj_square_error(predicted),
        )


def _scores(seconds: list[float]) -> np.ndarray:
    values = np.array(seconds, dtype="float32")
    best = values.min()
    return best / values if np.isfinite(best) else np.zeros_like(values)
