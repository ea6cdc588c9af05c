"""Run the benchmarks: `python -m benchmarks [name …]`."""

import sys
from importlib import import_module

# Each is a module here with a `main()`.
BENCHMARKS = (
    "step_cost",
    "economy",
    "recall",
    "diagnosis",
    "crash",
    "delegation",
    "kill",
    "calibration",
)


def main(names: list[str]) -> int:
    """Run the named benchmarks, all by default; unknown names are refused."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
