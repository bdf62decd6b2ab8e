"""Databases say which store they are, and a list of them must fit."""

from dataclasses import replace

import pytest

from bendybus.model.errors import StoreMismatch
from bendybus.store.identity import StoreIdentity, agree

URLS = ["postgresql://db/a", "postgresql://db/b", "postgresql://db/c"]
OURS = [StoreIdentity("ours", number, 3, ("shop",)) for number in range(3)]


def test_new_databases_become_one_cluster() -> None:
    agreed = agree(dict.fromkeys(range(3)), URLS, ["shop"], "new")
    assert [each.number for each in agreed] == [0, 1, 2]
    assert {(each.count, each.namespaces) for each in agreed} == {(3, ("shop",))}
    assert {each.cluster for each in agreed} == {"new"}


def test_a_new_cluster_needs_all_of_its_stores() -> None:
    with pytest.raises(StoreMismatch, match="db/b cannot be reached"):
        agree({0: None, 2: None}, URLS, ["shop"], "new")


def test_a_cluster_starts_again_with_a_store_away() -> None:
    assert agree({1: OURS[1]}, URLS, ["shop"], "new") == OURS


def test_a_cluster_grows_by_empty_databases_behind_the_others() -> None:
    agreed = agree({0: OURS[0], 1: OURS[1], 2: OURS[2], 3: None}, [*URLS, "d"], ["shop"], "new")
    assert {(each.cluster, each.count) for each in agreed} == {("ours", 4)}


def test_an_empty_database_is_not_taken_for_one_that_was_used() -> None:
    with pytest.raises(StoreMismatch, match="db/b is empty, but store 1 was used before"):
        agree({0: OURS[0], 1: None, 2: OURS[2]}, URLS, ["shop"], "new")


def test_fewer_stores_than_before_say_what_would_be_lost() -> None:
    with pytest.raises(StoreMismatch, match="messages in stores 1 to 2 would be lost"):
        agree({0: OURS[0]}, URLS[:1], ["shop"], "new")


def test_stores_in_another_order_are_refused() -> None:
    with pytest.raises(StoreMismatch, match=r"db/a is store 1, but is listed as store 0"):
        agree({0: OURS[1], 1: OURS[0], 2: OURS[2]}, URLS, ["shop"], "new")


def test_stores_of_two_clusters_are_refused() -> None:
    other = replace(OURS[1], cluster="theirs", namespaces=("shop", "depot"))
    with pytest.raises(StoreMismatch, match=r"db/b belongs to another broker.*depot"):
        agree({0: OURS[0], 1: other, 2: OURS[2]}, URLS, ["shop"], "new")


def test_another_namespace_does_not_move_into_the_databases() -> None:
    with pytest.raises(StoreMismatch, match=r"hold the namespaces shop.*\(depot\)"):
        agree(dict(enumerate(OURS)), URLS, ["depot"], "new")


def test_a_namespace_may_come_beside_the_one_that_is_there() -> None:
    agreed = agree(dict(enumerate(OURS)), URLS, ["shop", "depot"], "new")
    assert agreed[0].namespaces == ("depot", "shop")


def test_a_first_start_that_was_cut_off_is_finished_by_the_next() -> None:
    first = replace(OURS[0], count=1)
    agreed = agree({0: first, 1: None, 2: None}, URLS, ["shop"], "new")
    assert agreed == OURS
    assert [each.may_claim for each in agreed] == [False, True, True]


def test_a_store_keeps_the_largest_count_and_all_namespaces() -> None:
    there = replace(OURS[0], count=5, namespaces=("depot",))
    assert OURS[0].taken_up(there, "x") == StoreIdentity("ours", 0, 5, ("depot", "shop"))
