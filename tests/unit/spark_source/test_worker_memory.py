"""What a worker of Spark does with memory, in a process of its own: it is about all of one."""

import gc
import subprocess
import sys

from pyspark_servicebus.worker_memory import keep_memory

# Prints how many pages came from the system while as much memory was used a hundred times.
PASSING_THROUGH = """
import resource, sys
from pyspark_servicebus.worker_memory import reuse_memory
if "reused" in sys.argv:
    reuse_memory()
def pass_through():
    batch, beside = b"x" * 8_000_000, b"y" * 5_000_000
pass_through()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    pass_through()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_fetched(*arguments: str) -> int:
    command = [sys.executable, "-c", PASSING_THROUGH, *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_memory_of_one_batch_is_used_for_the_next() -> None:
    assert pages_fetched("reused") * 10 < pages_fetched()


def test_only_tasks_keep_memory() -> None:
    before = gc.get_freeze_count()
    keep_memory()
    assert gc.get_freeze_count() == before
