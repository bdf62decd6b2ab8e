"""Where a sampled stack spent its time: pure, from the text that py-spy writes.

A line of py-spy's raw format is a stack from the outermost frame to the innermost and a count:

    thread (17): MainThread;main (…/run.py:3);commit (…/bendybus/store/sqlite/writer.py:9) 12
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

IDLE: Final = "idle"
INTERPRETER_LOCK: Final = "waiting for the interpreter lock"
DISK_SYNC: Final = "disk sync"
SQLITE: Final = "sqlite"
EVENT_LOOP: Final = "event loop and sockets"
OTHER: Final = "other"

# Asked for each frame from the innermost outwards; the first that fits decides. A thread waits for
# a lock of its own inside PyThread_acquire_lock_timed, and for the interpreter's in a bare
# pthread_cond_wait: that tells the two apart.
RULES: Final = (
    (re.compile(r"^(epoll_p?wait|PyThread_acquire_lock_timed|select|poll)\b"), IDLE),
    (re.compile(r"^pthread_cond_(timed)?wait\b"), INTERPRETER_LOCK),
    (re.compile(r"^f(data)?sync\b"), DISK_SYNC),
    (re.compile(r"/apsw/"), SQLITE),
    (re.compile(r"/(uvloop|libuv[^/]*|asyncio)/"), EVENT_LOOP),
)
# Greedy, so that a checkout in a folder of the same name does no harm.
OUR_FOLDER: Final = re.compile(r".*/bendybus/([a-z_]+)/")
OUR_FRAME: Final = re.compile(r"^(?P<function>.+) \(.*/bendybus/(?P<file>[a-z_/]+\.py):\d+\)$")
THREAD: Final = re.compile(r"^thread \(\d+\): (.+)$")


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples by kind of thread and layer, and by our own innermost function while it ran.

    Every thread is sampled at every tick, so `ticks` is the length of the recording.
    """

    by_kind: dict[str, Counter[str]]
    by_function: Counter[str]
    ticks: int

    def threads_in(self, kind: str, layer: str) -> float:
        """How many threads of the kind were in the layer, on average."""
        return self.by_kind[kind][layer] / self.ticks


def read_profile(lines: Iterable[str]) -> Profile:
    """Attribute every sample."""
    by_kind: dict[str, Counter[str]] = {}
    by_function: Counter[str] = Counter()
    by_thread: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        layer = layer_of(frames)
        by_thread[thread] += int(count)
        by_kind.setdefault(thread_kind(thread), Counter())[layer] += int(count)
        if layer not in {IDLE, INTERPRETER_LOCK}:
            by_function[function_of(frames)] += int(count)
    return Profile(by_kind, by_function, ticks=max(by_thread.values(), default=0))


def layer_of(frames: Sequence[str]) -> str:
    """The layer of one stack, given from the outermost frame to the innermost."""
    for frame in reversed(frames):
        for pattern, layer in RULES:
            if pattern.search(frame):
                return layer
        if ours := OUR_FOLDER.match(frame):
            return ours[1]
    return OTHER


def function_of(frames: Sequence[str]) -> str:
    """Our own innermost function, whatever it called into."""
    for frame in reversed(frames):
        if ours := OUR_FRAME.match(frame):
            return f"{ours['file']} {ours['function']}"
    return OTHER


def thread_kind(label: str) -> str:
    """The thread's name without its number: threads of one kind are counted together."""
    named = THREAD.match(label)
    return re.sub(r"[-_ ]*\d+([-_]\d+)*$", "", named[1]) if named else label
