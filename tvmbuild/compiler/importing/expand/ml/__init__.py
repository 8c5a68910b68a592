"""Expansion of operators of ai.onnx.ml, to which scikit-learn, LightGBM and XGBoost models are exported."""
