"""The objects in a picture, with a box around each: `python detect.py PACKAGE.tar PICTURE OUT.png`."""  # noqa: INP001

import sys

from PIL import Image

import tvmbuild
from tvmbuild.package.drawing import draw_results

package, picture, out = sys.argv[1:]
image = Image.open(picture).convert("RGB")
with tvmbuild.load(package) as session:
    found = session.run_picture(image)
draw_results(image, found).save(out)
for box in found.boxes:
    print(f"{box.score:.2f}  {box.label:12} {box.x:5.0f} {box.y:5.0f} {box.width:5.0f} {box.height:5.0f}")
