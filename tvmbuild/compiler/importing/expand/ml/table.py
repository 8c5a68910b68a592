"""The expansion rules by operator of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.compiler.importing.expand.ml import encoders, features, linear, svm, trees
from tvmbuild.compiler.importing.expand.scope import Rule

RULES: Mapping[str, Rule] = {
    "ArrayFeatureExtractor": features.array_feature_extractor,
    "Binarizer": features.binarizer,
    "FeatureVectorizer": features.feature_vectorizer,
    "Imputer": features.imputer,
    "LabelEncoder": encoders.label_encoder,
    "LinearClassifier": linear.classifier,
    "LinearRegressor": linear.regressor,
    "Normalizer": features.normalizer,
    "OneHotEncoder": encoders.one_hot_encoder,
    "SVMClassifier": svm.classifier,
    "SVMRegressor": svm.regressor,
    "Scaler": features.scaler,
    "TreeEnsemble": trees.ensemble,
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
}
