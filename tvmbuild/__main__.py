"""The entry point of `python -m tvmbuild`, which is the same as the command `tvmbuild`."""

import sys

from tvmbuild.cli import main

sys.exit(main())
