"""Who is given the next client."""

from bendybus.doors.crowd import Crowd


def deal(crowd: Crowd, count: int) -> list[int]:
    """Give out connections that nobody has taken yet."""
    given = []
    for _ in range(count):
        worker = crowd.by_room()[0]
        crowd.give(worker, is_counted=True)
        given.append(worker)
    return given


def test_clients_that_come_at_once_are_spread() -> None:
    assert deal(Crowd(3), 6) == [0, 1, 2, 0, 1, 2]


def test_who_lost_clients_gets_the_next_ones() -> None:
    crowd = Crowd(2)
    seats = [crowd.seat(0), crowd.seat(1)]
    for worker in deal(crowd, 4):
        seats[worker].take()
    seats[0].note_open(2)
    seats[1].note_open(0)
    assert deal(crowd, 3) == [1, 1, 0]


def test_a_connection_counts_from_the_moment_it_is_given() -> None:
    crowd = Crowd(2)
    crowd.seat(0).note_open(1)
    assert deal(crowd, 2) == [1, 0]


def test_a_new_worker_begins_without_clients() -> None:
    crowd = Crowd(2)
    deal(crowd, 4)
    crowd.seat(0).note_open(9)
    crowd.empty(0)
    assert deal(crowd, 2) == [0, 0]


def test_a_worker_shows_that_it_is_alive() -> None:
    crowd = Crowd(2)
    crowd.seat(1).beat()
    crowd.seat(1).beat()
    assert (crowd.beats(0), crowd.beats(1)) == (0, 2)
    crowd.empty(1)
    assert crowd.beats(1) == 0


def test_clients_that_do_not_stay_take_turns() -> None:
    crowd = Crowd(3)
    crowd.seat(0).note_open(100)
    first = []
    for _ in range(4):
        worker = crowd.in_turn()[0]
        crowd.give(worker, is_counted=False)
        first.append(worker)
    assert first == [0, 1, 2, 0]
    assert crowd.by_room()[0] == 1
