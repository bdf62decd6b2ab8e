"""What can happen to a part of a fleet: it happens, lasts for a while, and is over."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bendybus.testing.cut_network import CutNetwork
from tests.kill.fleet import Fleet
from tests.kill.load import Load
from tests.kill.logbook import Logbook

# Longer than the locks of the queues: what a paused front end held is free before it wakes.
PAUSE_SECONDS: Final = 6.0
# How many messages are accepted while something is broken, and how long that may take: a send
# that finds its fragment away goes to another (R2.5), in half of this on a machine that has time.
ACCEPTED_MEANWHILE: Final = 200
SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Trial:
    """A fleet, its clients, and chance."""

    fleet: Fleet
    load: Load
    book: Logbook
    rng: random.Random

    async def service_goes_on(self) -> None:
        """Wait until clients of the partitioned queue have been served, whatever is broken."""
        enough = self.book.acknowledged["partitioned"] + ACCEPTED_MEANWHILE
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while self.book.acknowledged["partitioned"] < enough:  # noqa: ASYNC110 - seldom
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            logs = "\n".join(each.log[-3000:] for each in self.fleet.front_ends)
            raise AssertionError(f"sends are not accepted any more:\n{logs}") from None


Fault = Callable[[Trial], Awaitable[None]]


async def a_front_end_is_killed(trial: Trial) -> None:
    """Kill one through which something is under way: that is cut off."""
    busy = [
        each
        for each in trial.fleet.front_ends
        if any(client.at_stake for client in trial.load.at(each.amqp_port))
    ]
    front_end = trial.rng.choice(busy or trial.fleet.front_ends)
    front_end.kill()
    await trial.service_goes_on()
    await asyncio.to_thread(front_end.start)


async def a_front_end_stops(trial: Trial) -> None:
    front_end = trial.rng.choice(trial.fleet.front_ends)
    assert await asyncio.to_thread(front_end.stop) == 0
    await trial.service_goes_on()
    await asyncio.to_thread(front_end.start)


async def a_front_end_pauses(trial: Trial) -> None:
    front_end = trial.rng.choice(trial.fleet.front_ends)
    front_end.pause()
    trial.fleet.shun(front_end)
    trial.load.move_from(front_end.amqp_port)
    now = asyncio.get_running_loop().time
    end = now() + PAUSE_SECONDS
    while now() < end:
        await trial.service_goes_on()
    front_end.resume()
    trial.fleet.welcome(front_end)


async def a_server_stops(trial: Trial) -> None:
    server = trial.rng.choice(trial.fleet.servers)
    await asyncio.to_thread(server.stop)
    await trial.service_goes_on()
    await asyncio.to_thread(server.start)


async def a_server_is_killed(trial: Trial) -> None:
    server = trial.rng.choice(trial.fleet.servers)
    server.kill()
    await trial.service_goes_on()
    await asyncio.to_thread(server.start)


async def a_server_pauses(trial: Trial) -> None:
    server = trial.rng.choice(trial.fleet.servers)
    server.pause()
    await trial.service_goes_on()
    server.resume()


async def a_front_end_loses_a_server(trial: Trial) -> None:
    await _break(trial, _one(trial), CutNetwork.cut)


async def a_front_end_hears_nothing_of_a_server(trial: Trial) -> None:
    await _break(trial, _one(trial), CutNetwork.silence)


async def a_front_end_hears_no_answers_of_a_server(trial: Trial) -> None:
    await _break(trial, _one(trial), CutNetwork.silence_answers)


async def all_lose_a_server(trial: Trial) -> None:
    await _break(trial, _all(trial), CutNetwork.cut)


async def all_hear_nothing_of_a_server(trial: Trial) -> None:
    await _break(trial, _all(trial), CutNetwork.silence)


def _one(trial: Trial) -> list[CutNetwork]:
    return [trial.rng.choice(trial.rng.choice(trial.fleet.networks))]


def _all(trial: Trial) -> list[CutNetwork]:
    server = trial.rng.randrange(len(trial.fleet.servers))
    return [networks[server] for networks in trial.fleet.networks]


async def _break(
    trial: Trial, networks: list[CutNetwork], fault: Callable[[CutNetwork], None]
) -> None:
    for network in networks:
        fault(network)
    await trial.service_goes_on()
    for network in networks:
        network.restore()


# None of these frees a message without counting it, so that receivers see the order of each key.
KEEP_LOCKS: Final[tuple[Fault, ...]] = (
    a_front_end_is_killed,
    a_server_stops,
    a_server_pauses,
    a_front_end_loses_a_server,
    a_front_end_hears_nothing_of_a_server,
    a_front_end_hears_no_answers_of_a_server,
    all_lose_a_server,
    all_hear_nothing_of_a_server,
)
# These do: who stops gives back what its receivers had, and a server that is killed has forgotten
# the last locks, which nobody waits to see on its disk.
FREE_MESSAGES: Final[tuple[Fault, ...]] = (
    a_front_end_stops,
    a_front_end_pauses,
    a_server_is_killed,
)
