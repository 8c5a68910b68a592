"""Builds of models in memory, without steps and projects: a layer above compiler and replay, and below the stages."""
