"""ai.onnx.ml: what scikit-learn, LightGBM and XGBoost are exported to."""
