"""doit's file: the steps of models.yaml x targets.yaml."""

from tvmbuild.doit_adapter.loader import load_doit_file

DOIT_CONFIG, task_steps = load_doit_file(__file__)
