"""What a disk may hold after the power went: all that was synced, and any part of the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bendybus.testing.faulty_disk import Act, Event

SECTOR = 512

Files = dict[str, bytearray]


@dataclass(slots=True)
class Remains:
    """The files as synced, and what was done since, in order.

    What a failed sync covered is in doubt for ever: it may have reached the disk, but no later
    sync makes sure of it. `keeps_doubtful` says which of the two this disk does.
    """

    keeps_doubtful: bool
    synced: Files = field(default_factory=dict)
    unsynced: list[Event] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Let one event happen."""
        match event.act:
            case Act.SYNC:
                self._settle(event.file, is_kept=True)
            case Act.FAILED_SYNC:
                self._settle(event.file, is_kept=self.keeps_doubtful)
            case Act.SYNC_FOLDER:
                self._settle_deletions()
            case Act.WRITE | Act.TRUNCATE | Act.DELETE:
                self.unsynced.append(event)

    def with_first(self, count: int) -> Files:
        """Return the files with the first few of the unsynced events."""
        return self._with(self.unsynced[:count])

    def with_some(self, random: Random) -> Files:
        """Return the files with any of the unsynced events, writes torn at sectors."""
        lost_names: set[str] = set()
        kept: list[Event] = []
        for event in self.unsynced:
            if event.act is Act.WRITE:
                kept += [piece for piece in _torn(event) if random.random() < random.random()]
            elif random.random() < 0.5:
                kept.append(event)
            elif event.act is Act.DELETE:
                # What follows went to a new file, whose name is lost with the deletion.
                lost_names.add(event.file)
            kept = [event for event in kept if event.file not in lost_names]
        return self._with(kept)

    def _settle(self, file: str, *, is_kept: bool) -> None:
        if is_kept:
            apply([event for event in self.unsynced if event.file == file], self.synced)
        self.unsynced = [event for event in self.unsynced if event.file != file]

    def _settle_deletions(self) -> None:
        for deletion in [event for event in self.unsynced if event.act is Act.DELETE]:
            done = self.unsynced.index(deletion)
            self.synced.pop(deletion.file, None)
            self.unsynced = [
                event
                for at, event in enumerate(self.unsynced)
                if at > done or event.file != deletion.file
            ]

    def _with(self, events: Sequence[Event]) -> Files:
        files = {name: bytearray(content) for name, content in self.synced.items()}
        apply(events, files)
        return files


def apply(events: Sequence[Event], files: Files) -> None:
    """Do to files what was done."""
    for event in events:
        match event.act:
            case Act.WRITE:
                content = files.setdefault(event.file, bytearray())
                content.extend(bytes(max(0, event.at - len(content))))
                content[event.at : event.at + len(event.content)] = event.content
            case Act.TRUNCATE:
                content = files.setdefault(event.file, bytearray())
                del content[event.at :]
                content.extend(bytes(event.at - len(content)))
            case Act.DELETE:
                files.pop(event.file, None)
            case Act.SYNC | Act.FAILED_SYNC | Act.SYNC_FOLDER:
                continue


def moments(history: Sequence[Event]) -> list[int]:
    """Return the places in a history where most is unsynced: before each sync, and the end."""
    syncs = (Act.SYNC, Act.FAILED_SYNC)
    return [at for at, event in enumerate(history) if event.act in syncs] + [len(history)]


def cuts(
    history: Sequence[Event], random: Random, *, torn: int, keeps_doubtful: bool = False
) -> Iterator[tuple[int, str, Files]]:
    """Yield for every moment each prefix of what was unsynced, and some torn parts of it."""
    remains = Remains(keeps_doubtful)
    done = 0
    for moment in moments(history):
        for event in history[done:moment]:
            remains.take(event)
        done = moment
        for count in range(len(remains.unsynced) + 1):
            yield moment, f"first {count} unsynced", remains.with_first(count)
        for at in range(torn):
            yield moment, f"torn {at}", remains.with_some(random)


def write_files(files: Files, folder: Path) -> None:
    """Put the files into a folder, alone."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _torn(event: Event) -> list[Event]:
    """Cut a write where sectors end."""
    end = event.at + len(event.content)
    starts = [event.at, *range((event.at // SECTOR + 1) * SECTOR, end, SECTOR)]
    return [
        event._replace(at=start, content=event.content[start - event.at : stop - event.at])
        for start, stop in zip(starts, [*starts[1:], end], strict=True)
    ]
