"""Print the size of the installation: each distribution that tvmbuild needs, in MB on disk."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path


def weigh(distribution: metadata.Distribution) -> int:
    """Return the bytes of the disk blocks that its files take."""
    paths = [Path(str(file.locate())) for file in distribution.files or ()]
    return sum(path.stat().st_blocks * 512 for path in paths if path.exists())


def main() -> int:
    """Print the table, the largest first."""
    weights: dict[str, int] = {}
    waiting = ["tvmbuild"]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in weights:
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # another Python's, or another system's
        weights[name] = weigh(found)
        needs = [line for line in found.requires or () if "extra ==" not in line]
        waiting += [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needs]
    for name, size in sorted(weights.items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:6.0f}  {name}")
    print(f"{sum(weights.values()) / 1e6:6.0f}  {len(weights)} distributions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
