"""Fuzzes the AMQP engine for a while: python tests/fuzz/fuzz_engine.py [--seconds N] [--seed N].

Prints the seed, and with --keep adds what behaves in a new way to the corpus.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _until(deadline: float) -> Iterator[int]:
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1
    print(f"{number:,} streams, no surprise")  # noqa: T201  a program


def main() -> None:
    """Run until the time is over or something surprises."""
    sys.path.insert(0, str(ROOT))
    from tests.fuzz.campaign import keep, run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--keep", action="store_true", help="add new behaviour to the corpus")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)  # noqa: T201  a program
    for data, features in run(options.seed, _until(time.monotonic() + options.seconds)):
        print("new:", ", ".join(sorted(features)), flush=True)  # noqa: T201  a program
        if options.keep:
            keep(data)


if __name__ == "__main__":
    main()
