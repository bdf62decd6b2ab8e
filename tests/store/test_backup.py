"""Backups of the embedded stores: one instant of all of them, restored whole or not at all."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import pytest

from bendybus.model.errors import BackupUnusable, DataFolderInUse, DataFolderUnusable
from bendybus.store.sqlite.backing_up import back_up
from bendybus.store.sqlite.backup_contents import LIST_FILE
from bendybus.store.sqlite.data_folder import held, store_files
from bendybus.store.sqlite.database import Pacing, open_database
from bendybus.store.sqlite.one_cut import PAUSE_SECONDS_MAX
from bendybus.store.sqlite.restoring import complete_restore, restore

STORES: Final = 3
SECONDS_MAX: Final = 30
# What changes names and contents of folders: a restore that is killed is killed at one of these.
STEPS: Final = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "open"})
KILLED: Final = 9


def make_stores(data: Path, mark: int = 0) -> Path:
    """Make empty stores; the mark tells those of one folder from those of another."""
    data.mkdir()
    for number in range(STORES):
        open_database(data / f"store-{number:02}.db", Pacing()).close()
        with writing(data, number) as connection:
            add(connection, mark)
    return data


@contextmanager
def writing(data: Path, number: int) -> Iterator[apsw.Connection]:
    """Open a store as another process would."""
    connection = apsw.Connection(str(data / f"store-{number:02}.db"))
    try:
        connection.set_busy_timeout(5000)
        yield connection
    finally:
        connection.close()


def add(connection: apsw.Connection, number: int) -> None:
    connection.execute("INSERT INTO delivered (nonce, until) VALUES (?, 0)", (number,))


def numbers_in(data: Path, number: int) -> list[int]:
    with writing(data, number) as connection:
        return [each for (each,) in connection.execute("SELECT nonce FROM delivered ORDER BY 1")]


def quietly(*_: int) -> None:
    """How far it is, nobody wants to know."""


def restored(backup: Path, data: Path) -> Path:
    restore(backup, data, is_forced=False, on_bytes=quietly)
    return data


def test_a_backup_has_what_the_logs_hold_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    data = make_stores(tmp_path / "data")
    with writing(data, 1) as held:
        add(held, 7)
        made = back_up(data, tmp_path / "backup", quietly)
    assert numbers_in(restored(tmp_path / "backup", tmp_path / "new"), 1) == [0, 7]
    assert [store.file for store in made.contents.stores] == sorted(
        path.name for path in store_files(data).values()
    )
    for folder in (tmp_path / "backup", tmp_path / "new"):
        assert folder.stat().st_mode & 0o77 == 0
        assert all(path.stat().st_mode & 0o77 == 0 for path in folder.iterdir())


def test_the_copies_are_of_one_instant(tmp_path: Path) -> None:
    """While one store cannot be had, the others are held, so that none is copied as it was then."""
    data = make_stores(tmp_path / "data")
    with ThreadPoolExecutor() as threads, writing(data, 0) as first, writing(data, 2) as last:
        last.execute("BEGIN IMMEDIATE")
        made = threads.submit(back_up, data, tmp_path / "backup", quietly)
        written = write_until_refused(first)
        add(last, written + 1)
        last.execute("COMMIT")
        assert made.result().pause_seconds < 2 * PAUSE_SECONDS_MAX
        add(first, written + 1)
    new = restored(tmp_path / "backup", tmp_path / "new")
    assert numbers_in(new, 0) == list(range(written + 1))
    assert numbers_in(new, 2) == [0, written + 1]


def write_until_refused(connection: apsw.Connection) -> int:
    """Write 1, 2 and so on, until somebody holds the store; return the last."""
    connection.set_busy_timeout(0)
    deadline = time.monotonic() + SECONDS_MAX
    number = 0
    while time.monotonic() < deadline:
        try:
            add(connection, number + 1)
        except apsw.BusyError:
            connection.set_busy_timeout(5000)
            return number
        number += 1
    raise AssertionError("nobody holds the store")


def test_a_store_that_is_never_free_makes_others_wait_for_a_moment_only(tmp_path: Path) -> None:
    data = make_stores(tmp_path / "data")
    with writing(data, 0) as first, writing(data, 2) as last:
        last.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor() as threads:
            made = threads.submit(back_up, data, tmp_path / "backup", quietly)
            written = write_until_refused(first)
            # Less than a broker's patience.
            first.set_busy_timeout(2000)
            add(first, written + 1)
            last.execute("ROLLBACK")
            assert made.result().contents.stores


def test_a_broker_that_starts_is_given_way(tmp_path: Path) -> None:
    data = make_stores(tmp_path / "data")

    def start_one(done: int, total: int) -> None:
        del done, total
        with held(data):
            pass

    with pytest.raises(DataFolderUnusable, match="a broker started"):
        back_up(data, tmp_path / "backup", start_one)
    with pytest.raises(BackupUnusable, match="cut off"):
        restored(tmp_path / "backup", tmp_path / "new")
    # Nobody is in its way any more: the log can be emptied.
    open_database(data / "store-00.db", Pacing(busy_timeout_ms=0)).close()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: (data / "store-01.db").unlink(), "store 1 is missing"),
        (lambda data: (data / "store-01.db").write_bytes(b"x" * 4096), "store-01.db"),
        (
            lambda data: (data / "store-01.url").write_text("postgresql://"),
            "moved to PostgreSQL.*pg_dump",
        ),
        (lambda data: [path.unlink() for path in data.iterdir()], "holds no stores"),
    ],
)
def test_stores_that_are_not_all_there_are_not_copied(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    data = make_stores(tmp_path / "data")
    spoil(data)
    with pytest.raises(DataFolderUnusable, match=said):
        back_up(data, tmp_path / "backup", quietly)


def test_a_store_of_which_only_the_others_tell_is_missed(tmp_path: Path) -> None:
    data = make_stores(tmp_path / "data")
    with writing(data, 0) as connection:
        connection.execute(
            "INSERT INTO entity (name, kind, version, properties, places)"
            " VALUES ('q', 'queue', 1, '{}', '[[0, 1], [3, 1]]')"
        )
    with pytest.raises(DataFolderUnusable, match="store 3 is missing"):
        back_up(data, tmp_path / "backup", quietly)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    data = make_stores(tmp_path / "data")
    back_up(data, tmp_path / "backup", quietly)
    with pytest.raises(BackupUnusable, match="holds a backup already"):
        back_up(data, tmp_path / "backup", quietly)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter").write_text("mine")
    with pytest.raises(BackupUnusable, match="not empty"):
        back_up(data, tmp_path / "other", quietly)
    with pytest.raises(DataFolderUnusable, match="holds stores"):
        restored(tmp_path / "backup", data)
    with held(data), pytest.raises(DataFolderInUse):
        restore(tmp_path / "backup", data, is_forced=True, on_bytes=quietly)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _relist(backup: Path, **changes: object) -> None:
    listed = json.loads((backup / LIST_FILE).read_text())
    (backup / LIST_FILE).write_text(json.dumps(listed | changes))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda backup: _flip(backup / "store-02.db"), r"store-02\.db is damaged"),
        (lambda backup: os.truncate(backup / "store-01.db", 4096), r"store-01\.db is damaged"),
        (lambda backup: (backup / "store-00.db").unlink(), r"cannot read .*store-00\.db"),
        (lambda backup: (backup / LIST_FILE).unlink(), "cut off"),
        (lambda backup: (backup / LIST_FILE).write_text("{"), r"backup\.json is damaged"),
        (lambda backup: _relist(backup, format=2), "another release"),
        (lambda backup: _relist(backup, stores=[]), r"json is damaged; take"),
        (
            lambda backup: _relist(
                backup, stores=[{"file": "../store-00.db", "size": 1, "sha256": "0" * 64}]
            ),
            "is damaged",
        ),
    ],
)
def test_a_damaged_backup_is_refused_by_the_file_before_anything_changes(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    data = make_stores(tmp_path / "data")
    back_up(data, tmp_path / "backup", quietly)
    spoil(tmp_path / "backup")
    before = {path: path.read_bytes() for path in data.iterdir()}
    with pytest.raises(BackupUnusable, match=said):
        restore(tmp_path / "backup", data, is_forced=True, on_bytes=quietly)
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_what_a_restore_replaces_is_kept_with_its_logs(tmp_path: Path) -> None:
    back_up(make_stores(tmp_path / "old", mark=1), tmp_path / "backup", quietly)
    data = make_stores(tmp_path / "data", mark=2)
    (data / "store-03.db").write_bytes(b"one more than the backup has")
    with writing(data, 0) as crashed:
        add(crashed, 3)
        log = (data / "store-00.db-wal").read_bytes()
        restore(tmp_path / "backup", data, is_forced=True, on_bytes=quietly)
        [aside] = data.glob("before-restore-*")
        assert (aside / "store-00.db-wal").read_bytes() == log
    assert numbers_in(data, 0) == [1]
    assert sorted(store_files(data)) == [0, 1, 2]
    assert sorted(store_files(aside)) == [0, 1, 2, 3]
    assert numbers_in(aside, 0) == [2, 3]


def test_a_restore_that_is_killed_at_any_step_has_changed_all_or_nothing(tmp_path: Path) -> None:
    back_up(make_stores(tmp_path / "old", mark=1), tmp_path / "backup", quietly)
    outcomes: list[int] = []
    present = make_stores(tmp_path / "present", mark=2)
    step, is_killed = 0, True
    while is_killed:
        step += 1
        data = tmp_path / f"data-{step}"
        shutil.copytree(present, data)
        forced = partial(restore, tmp_path / "backup", data, is_forced=True, on_bytes=quietly)
        is_killed = killed_at(step, forced)
        # And the broker that comes next may be killed while it completes it.
        killed_at(3, partial(complete_restore, data))
        complete_restore(data)
        assert sorted(store_files(data)) == [0, 1, 2]
        [mark] = {tuple(numbers_in(data, number)) for number in range(STORES)}
        outcomes.append(mark[0])
        if mark == (1,):
            [aside] = data.glob("before-restore-*")
            assert {tuple(numbers_in(aside, number)) for number in range(STORES)} == {(2,)}
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {1, 2}


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do something in another process that ends at its so-manieth step; False if it came through.

    Nothing is tidied up then: the process is gone.
    """
    process = os.fork()
    if process:
        _, status = os.waitpid(process, 0)
        assert os.waitstatus_to_exitcode(status) in {0, KILLED}
        return os.waitstatus_to_exitcode(status) == KILLED
    left = step

    def count(event: str, _: object) -> None:
        nonlocal left
        left -= event in STEPS
        if not left:
            os._exit(KILLED)

    try:
        sys.addaudithook(count)
        work()
    finally:
        os._exit(0)
