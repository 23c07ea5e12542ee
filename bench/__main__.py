"""Command line `python -m bench [NAME …]`: run the named measurements, or all of them.

`--without-cluster` selects all measurements that start what they need, `--with-cluster` those that need the
cluster with Daybreak.
"""

import importlib
import sys

from bench.names import NAMES, WITH_CLUSTER, WITHOUT_CLUSTER

GROUPS = {"--without-cluster": WITHOUT_CLUSTER, "--with-cluster": WITH_CLUSTER}


def main(arguments: list[str]) -> int:
    """Run `main()` of each measurement; the result files are in `bench/results/`."""
    names = [name for argument in arguments for name in GROUPS.get(argument, (argument,))]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no measurement {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in names or NAMES:
        importlib.import_module(NAMES[name]).main()
    return 0


sys.exit(main(sys.argv[1:]))
