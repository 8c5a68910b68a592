"""Nodes that keep their published messages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from . import parameters


class Node:
    """Has `subscribed` (topic → callback) and `published` (topic → messages) for the test to use."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscribed: dict[str, Callable[[object], None]] = {}
        self.published: dict[str, list[object]] = {}

    def declare_parameter(self, name: str, default: object) -> SimpleNamespace:
        return SimpleNamespace(value=parameters.get(name, default))

    def create_publisher(self, _kind: type, topic: str, _depth: int) -> SimpleNamespace:
        return SimpleNamespace(publish=self.published.setdefault(topic, []).append)

    def create_subscription(
        self, _kind: type, topic: str, callback: Callable[[object], None], _profile: object
    ) -> None:
        self.subscribed[topic] = callback
