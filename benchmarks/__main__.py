"""Run the benchmarks: `python -m benchmarks [name …]`, or one with options: `… peers --help`."""

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
    "engine",
    "peers",
    "ablation",
    "accounts",
)


def main(names: list[str]) -> int:
    """Run the named benchmarks, all by default; unknown names are refused."""
    first = next((i for i, name in enumerate(names) if name.startswith("-")), len(names))
    names, options = names[:first], names[first:]
    if options and len(names) != 1:
        print(f"options such as {options[0]!r} are for one named benchmark", file=sys.stderr)
        return 2
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        import_module(f"benchmarks.{name}").main(*[options] if options else [])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
