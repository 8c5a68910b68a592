"""The stages: each module's ``run(step)`` reads the Step's inputs and publishes its outputs."""
