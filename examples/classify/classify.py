"""The classes of pictures: `python classify.py PACKAGE.tar PICTURE …`."""  # noqa: INP001 - a script

from __future__ import annotations

import sys

import tvmbuild
from tvmbuild.package.ranking import rank_classes

with tvmbuild.load(sys.argv[1]) as session:
    for picture in sys.argv[2:]:
        scores = session.run({"input": session.preprocess(picture)})["logits"]
        print(picture)
        for best in rank_classes(scores, session.metadata.labels, 5):
            print(f"{best.index:6d}  {best.probability:.6f}  {best.label}")
