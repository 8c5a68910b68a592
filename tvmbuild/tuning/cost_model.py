"""A cost model for MetaSchedule: xgboost on per-store features, with some rounds added after each batch.

TVM's own XGBModel trains up to 10,000 rounds, predicts at random until it has seen 100 candidates, and ignores
`tree_method`. The features and the sum-over-stores objective come from TVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import PyCostModel
from tvm.s_tir.meta_schedule.cost_model.xgb_model import PackSum, XGBConfig
from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature
from tvm.s_tir.meta_schedule.utils import shash2hex

ROUNDS = 50
MORE = 10
"""The rounds that are added after a batch. Over 20 batches of 10 convolutions this was as good as training again, in a
third of the time.
"""
GROWN = 1.5
"""The model is trained again when the number of candidates has grown by this factor, to bound the number of rounds."""
WARM_UP = 32
"""The number of measured candidates before predictions are trusted."""


class Trees:
    """Boosted trees that score candidates in [0, 1].

    A score is the fastest known time of the Task divided by the candidate's time.
    """

    def __init__(self, threads: int, seed: int) -> None:
        self._config = XGBConfig(nthread=threads, seed=seed).to_dict()
        self._features: dict[str, list[np.ndarray]] = {}
        self._seconds: dict[str, list[float]] = {}
        self._booster: Any = None
        self._began_with = 0

    @property
    def trained(self) -> bool:
        """Return whether the model has learned enough to predict."""
        return self._booster is not None

    @property
    def rounds(self) -> int:
        """The number of boosting rounds in the model, 0 before it is trained."""
        return self._booster.num_boosted_rounds() if self.trained else 0

    def learn(self, task: str, features: Sequence[np.ndarray], seconds: Sequence[float]) -> None:
        """Learn from measured candidates of the Task that ``task`` identifies.

        The features of a candidate have the shape (stores, features). A candidate without stores is ignored. A time is
        in seconds, or infinity for a failed candidate.
        """
        usable = [pair for pair in zip(features, seconds, strict=True) if len(pair[0])]
        self._features.setdefault(task, []).extend(feature for feature, _ in usable)
        self._seconds.setdefault(task, []).extend(value for _, value in usable)
        known = sum(map(len, self._seconds.values()))
        if known < WARM_UP:
            return
        import xgboost  # noqa: PLC0415 - with scikit-learn it takes longer than all of TVM, and few steps search

        anew = not self.trained or known >= GROWN * self._began_with
        if anew:
            self._began_with = known
        rows = [feature for group in self._features.values() for feature in group]
        data = PackSum(xs=rows, ys=np.concatenate([_scores(group) for group in self._seconds.values()]))
        self._booster = xgboost.train(
            self._config,
            data.dmatrix,
            num_boost_round=ROUNDS if anew else MORE,
            obj=lambda predicted, _matrix: data.obj_square_error(predicted),
            xgb_model=None if anew else self._booster,
        )

    def predict(self, features: Sequence[np.ndarray]) -> np.ndarray:
        """Return one score for each candidate. A higher score means faster. The model must be trained."""
        data = PackSum(xs=list(features), ys=None)
        scores: np.ndarray = data.predict_with_score(self._booster.predict(data.dmatrix))
        return scores.astype("float64")


@derived_object
class BoostedTrees(PyCostModel):  # type: ignore[misc]
    """The trees as an implementation of MetaSchedule's interface of a cost model."""

    def __init__(self, threads: int, seed: int) -> None:
        super().__init__()
        self.extractor = PerStoreFeature()
        self.random = np.random.default_rng(seed)
        self.trees = Trees(threads, seed)

    def load(self, path: str) -> None:
        """Raise NotImplementedError, because a model lives only as long as one tune step."""
        raise NotImplementedError(path)

    def save(self, path: str) -> None:
        """Raise NotImplementedError, because a model lives only as long as one tune step."""
        raise NotImplementedError(path)

    def update(self, context: Any, candidates: list[Any], results: list[Any]) -> None:
        """Learn from the ``results`` of measured ``candidates``."""
        seconds = [
            float(np.median([float(value) for value in result.run_secs])) if result.run_secs else np.inf
            for result in results
        ]
        self.trees.learn(shash2hex(context.mod), self._extract(context, candidates), seconds)

    def predict(self, context: Any, candidates: list[Any]) -> np.ndarray:
        """Return one score for each candidate. A higher score means faster.

        Scores are random until enough candidates were measured.
        """
        if not self.trees.trained:
            return self.random.uniform(size=len(candidates))
        return self.trees.predict(self._extract(context, candidates))

    def _extract(self, context: Any, candidates: list[Any]) -> list[np.ndarray]:
        return [item.numpy().astype("float32") for item in self.extractor.extract_from(context, candidates)]


def _scores(seconds: list[float]) -> np.ndarray:
    values = np.array(seconds, dtype="float32")
    best = values.min()
    return best / values if np.isfinite(best) else np.zeros_like(values)
