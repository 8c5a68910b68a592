"""`python -m tvmbuild`: the same as `tvmbuild`."""

import sys

from tvmbuild.cli import main

sys.exit(main())
