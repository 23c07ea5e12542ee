"""Command `python -m cluster.images`: build, load and list the images."""

import sys

from cluster.images.catalog import main

sys.exit(main())
