"""Pipelines on Spark: bulk work on entities, each a program that one can read, copy and change.

A pipeline is a file of this folder, or of anybody's:

- its name is the file's; the first line of its docstring says what it does, the rest is its help;
- `Options` says what can be chosen (see `bendybus.pipelines.options`);
- `run(spark, options, progress)` does the work and returns what came of it;
- `as_text(result)`, if it has one, words that for people.
"""

from typing import Final

# In the order in which `bendybus pipeline list` shows them.
PIPELINES: Final[tuple[str, ...]] = ("capture", "replay", "transform", "triage", "stats")
