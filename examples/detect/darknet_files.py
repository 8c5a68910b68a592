"""The files of darknet: a network's layers as text (.cfg), its numbers one after the other (.weights)."""  # noqa: INP001

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Section:
    """One ``[kind]`` of a .cfg file with its options as text."""

    kind: str
    place: str
    options: dict[str, str]

    def text(self, key: str, default: str | None = None) -> str:
        """Return an option, or the default if there is one."""
        value = self.options.get(key, default)
        if value is None:
            raise ValueError(f"{self.place}: [{self.kind}] has no `{key}`")
        return value

    def numbers(self, key: str, default: str | None = None) -> list[int]:
        """Return an option that is a list of integers."""
        text = self.text(key, default)
        try:
            return [int(part) for part in text.split(",")]
        except ValueError:
            raise ValueError(f"{self.place}: {key}={text} is not a list of integers") from None

    def decimals(self, key: str, default: str | None = None) -> list[float]:
        """Return an option that is a list of numbers."""
        text = self.text(key, default)
        try:
            return [float(part) for part in text.split(",")]
        except ValueError:
            raise ValueError(f"{self.place}: {key}={text} is not a list of numbers") from None

    def number(self, key: str, default: int | None = None) -> int:
        """Return the first number of an option."""
        return self.numbers(key, None if default is None else str(default))[0]


def read_sections(cfg: Path) -> list[Section]:
    """Return the sections of a .cfg file in their order."""
    sections: list[Section] = []
    for number, line in enumerate(cfg.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        key, equals, value = (part.strip() for part in text.partition("="))
        if text.startswith("[") and text.endswith("]"):
            sections.append(Section(text[1:-1], f"{cfg}:{number}", {}))
        elif equals and sections:
            sections[-1].options[key] = value
        elif text:
            raise ValueError(f"{cfg}:{number}: neither a [section] nor an option of one: {text}")
    if not sections:
        raise ValueError(f"{cfg} is empty")
    return sections


class Weights:
    """The numbers of a .weights file, one after the other."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        if len(data) < 20 or len(data) % 4:
            raise ValueError(f"{path} is no .weights file: it has {len(data)} bytes")
        words = np.frombuffer(data, "<i4")
        header = 5 if words[0] * 10 + words[1] >= 2 else 4  # the count of pictures seen has grown to 64 bits
        self._path, self._values, self._used = path, words[header:].view("<f4"), 0

    def take(self, *shape: int) -> np.ndarray:
        """Return the next numbers in that shape."""
        start, self._used = self._used, self._used + int(np.prod(shape))
        if self._used > self._values.size:
            raise ValueError(f"{self._path} has {self._values.size} weights, fewer than the .cfg file asks for")
        return self._values[start : self._used].reshape(shape)

    def check_used(self) -> None:
        """Raise ValueError if numbers are left over, because the two files then do not belong together."""
        if self._used != self._values.size:
            raise ValueError(f"{self._path} has {self._values.size} weights, the .cfg file asks for {self._used}")
