"""Which rule takes which operator of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.compiler.importing.expand.ml import trees
from tvmbuild.compiler.importing.expand.scope import Rule

RULES: Mapping[str, Rule] = {
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
}
