"""`python -m bench [NAME …]`: run the measurements named, or all of them."""

import importlib
import sys

from bench.names import NAMES


def main(arguments: list[str]) -> int:
    """Run each measurement's `main()`; the result files are in bench/results/."""
    unknown = [name for name in arguments if name not in NAMES]
    if unknown:
        print(f"no measurement {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in arguments or NAMES:
        importlib.import_module(NAMES[name]).main()
    return 0


sys.exit(main(sys.argv[1:]))
