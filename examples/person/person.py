"""The person in a frame, cut out, with named points: `python person.py PACKAGE.tar PICTURE OUT.png`."""  # noqa: INP001

import sys

import numpy as np
from PIL import Image

import tvmbuild
from tvmbuild.package.drawing import draw_results

package, picture, out = sys.argv[1:]
frame = Image.open(picture).convert("RGB")
with tvmbuild.load(package) as session:
    found = session.run_frame(np.asarray(frame))
is_person = Image.fromarray(np.where(found.segmentation.classes == 1, np.uint8(255), np.uint8(0)))
points = [point for point in found.points if point.label and point.score > 0]
draw_results(Image.composite(frame, Image.new("RGB", frame.size, "white"), is_person), points).save(out)
for point in points:
    print(f"{point.score:5.2f}  {point.label:17} {point.x:5.0f} {point.y:5.0f}")
