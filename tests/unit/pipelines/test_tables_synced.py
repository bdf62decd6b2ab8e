"""What a table holds of a batch is on disk when the broker is told so."""

import os
from pathlib import Path

import pytest

from bendybus.pipelines.tables import sync_batch


@pytest.mark.spec("R9.3")
def test_every_file_of_a_batch_is_synced_and_every_folder_on_the_way_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, synced = tmp_path / "table", set[Path]()
    folders = [table / "date=2026-11-16" / f"fragment={number}" for number in (0, 7)]
    files = [folder / "batch=b3-x" / "part-0.parquet" for folder in folders]
    other = folders[0] / "batch=b2-x" / "part-0.parquet"
    for path in (*files, other):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(
        os, "fsync", lambda number: synced.add(Path(f"/proc/self/fd/{number}").readlink())
    )

    sync_batch(table, ("date", "fragment", "batch"), "b3-x")

    way = {each for path in files for each in path.parents if each.is_relative_to(tmp_path)}
    assert synced == {*files, *way}
