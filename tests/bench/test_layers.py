"""A sample belongs to the innermost frame that can be placed."""

import pytest

from bench.layers import (
    DISK_SYNC,
    EVENT_LOOP,
    IDLE,
    INTERPRETER_LOCK,
    OTHER,
    SQLITE,
    layer_of,
    read_profile,
    thread_kind,
)

APSW = "(/venv/site-packages/apsw/__init__.cpython-311-x86_64-linux-gnu.so)"
LIBC = "(/usr/lib/x86_64-linux-gnu/libc.so.6)"
RUN = "run (/venv/site-packages/uvloop/__init__.py:92)"
COMMIT = "commit (/checkouts/bendybus/src/bendybus/store/sqlite/writer.py:9)"


@pytest.mark.parametrize(
    ("frames", "layer"),
    [
        ([RUN, COMMIT], "store"),
        ([RUN, COMMIT, f"sqlite3_step {APSW}"], SQLITE),
        ([RUN, COMMIT, f"unixSync {APSW}", f"fdatasync {LIBC}"], DISK_SYNC),
        ([COMMIT, f"APSWCursor_step {APSW}", f"pthread_cond_timedwait {LIBC}"], INTERPRETER_LOCK),
        ([COMMIT, "wait (/lib/python3.11/threading.py:327)"], "store"),
        ([COMMIT, "PyThread_acquire_lock_timed (/lib/libpython3.11.so.1.0)", "0x7f (libc)"], IDLE),
        ([RUN, "uv__io_poll (/project/build/libuv-x86_64/src/unix/linux.c:1)"], EVENT_LOOP),
        ([RUN, f"epoll_pwait {LIBC}"], IDLE),
        ([RUN, "parse (/src/bendybus/amqp/frames.py:1)", "unpack (?)"], "amqp"),
        (["main (/somewhere/else.py:1)"], OTHER),
    ],
)
def test_the_innermost_frame_that_is_known_decides(frames: list[str], layer: str) -> None:
    assert layer_of(frames) == layer


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("thread (17): MainThread", "MainThread"),
        ("thread (17): store-07", "store"),
        ("thread (17): ThreadPoolExecutor-0_3", "ThreadPoolExecutor"),
    ],
)
def test_threads_of_one_kind_are_counted_together(label: str, kind: str) -> None:
    assert thread_kind(label) == kind


def test_samples_add_up_by_thread_and_by_our_own_function() -> None:
    profile = read_profile(
        [
            f"thread (1): store-00;{COMMIT};sqlite3_step {APSW} 3",
            f"thread (2): store-01;{COMMIT} 2",
            f"thread (1): store-00;{COMMIT};epoll_wait {LIBC} 5",
            f"thread (2): store-01;{COMMIT};pthread_cond_timedwait {LIBC} 6",
        ]
    )
    assert profile.by_kind == {"store": {SQLITE: 3, "store": 2, IDLE: 5, INTERPRETER_LOCK: 6}}
    assert profile.by_function == {"store/sqlite/writer.py commit": 5}


def test_threads_are_counted_against_the_length_of_the_recording() -> None:
    profile = read_profile([f"thread ({number}): store-{number};{COMMIT} 4" for number in (1, 2)])
    assert profile.threads_in("store", "store") == 2.0
