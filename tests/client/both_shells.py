"""One test body for both clients: the blocking one, in a thread of its own, looks asynchronous."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from bendybus.client import AsyncClient, Client

WAIT_SECONDS = 10.0
_END = object()


class Threaded:
    """A blocking sender, receiver or transaction: every call of it becomes one to await."""

    def __init__(self, inner: Any, executor: ThreadPoolExecutor) -> None:
        self.inner = inner
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        async def call(*arguments: Any, **options: Any) -> Any:
            plain = [each.inner if isinstance(each, Threaded) else each for each in arguments]
            return await self.in_thread(lambda: attribute(*plain, **options))

        return call

    async def messages(self, timeout: float | None = None) -> AsyncIterator[Any]:  # noqa: ASYNC109 - as the client's
        """Iterate as `async for` does."""
        iterator = self.inner.messages(timeout)
        while (found := await self.in_thread(lambda: next(iterator, _END))) is not _END:
            yield found

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Let the thread do something."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


class ThreadedClient(Threaded):
    """A blocking client."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, ThreadPoolExecutor(1))
        self._is_closed = False

    def sender(self, entity: str) -> Threaded:
        """Return a sender whose calls are to be awaited."""
        return Threaded(self.inner.sender(entity), self._executor)

    def receiver(self, entity: str, **options: Any) -> Threaded:
        """Return a receiver whose calls are to be awaited."""
        return Threaded(self.inner.receiver(entity, **options), self._executor)

    async def accept_session(self, *arguments: Any, **options: Any) -> Threaded:
        """Return a receiver of a session whose calls are to be awaited."""
        found = await self.in_thread(lambda: self.inner.accept_session(*arguments, **options))
        return Threaded(found, self._executor)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Threaded]:
        """Enter and leave the blocking client's own context, in its thread."""
        context = self.inner.transaction()
        yield_value = await self.in_thread(context.__enter__)
        try:
            yield Threaded(yield_value, self._executor)
        except BaseException as error:
            problem = error
            await self.in_thread(
                lambda: context.__exit__(type(problem), problem, problem.__traceback__)
            )
            raise
        await self.in_thread(lambda: context.__exit__(None, None, None))

    async def close(self) -> None:
        """Close the client and end its thread; as the client's own, it may be called again."""
        if not self._is_closed:
            self._is_closed = True
            await self.in_thread(self.inner.close)
            self._executor.shutdown()


@asynccontextmanager
async def client_of(shell: str, connection_string: str, **options: Any) -> AsyncIterator[Any]:
    """Make a client of either kind and close it at the end."""
    client = make_client(shell, connection_string, **options)
    try:
        yield client
    finally:
        await client.close()


async def until(is_met: Callable[[], object]) -> None:
    """Wait for a condition, looking at it again and again."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_met():  # noqa: ASYNC110 - what is looked at knows nothing of events
            await asyncio.sleep(0.001)


def make_client(shell: str, connection_string: str, **options: Any) -> Any:
    """Make a client of either kind; `shell` is "blocking" or "asynchronous"."""
    if shell == "blocking":
        return ThreadedClient(Client.from_connection_string(connection_string, **options))
    return AsyncClient.from_connection_string(connection_string, **options)
