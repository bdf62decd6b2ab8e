"""What a queue of sessions ought to hold, and who holds which session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bendybus.model.ids import SubQueue
from bendybus.model.message import MessageState, StoredMessage
from tests.history.queue_model import LOCK_DURATION_MS, Expected, QueueModel, check_fields


@dataclass(slots=True)
class Session:
    """One session, with or without messages."""

    locked_until: int | None = None
    nonce: int | None = None
    state: bytes | None = None
    state_set_at: int | None = None
    # When its last lock ended; it queues up behind those that waited then.
    ended_at: int = 0

    def is_held(self, nonce: int, now: int) -> bool:
        """Whether the lock with this nonce is held."""
        return self.nonce == nonce and self.locked_until is not None and self.locked_until > now


@dataclass(slots=True)
class SessionModel(QueueModel):
    """A queue whose messages are received session by session."""

    sessions: dict[str, Session] = field(default_factory=dict)

    def of_session(self, session_id: str) -> list[Expected]:
        """Return the messages of a session, in order."""
        found = [each for each in self.held_in(SubQueue.MAIN) if each.session_id == session_id]
        return sorted(found, key=lambda each: each.sequence or 0)

    def free_of_session(self, session_id: str, now: int) -> list[Expected]:
        """Return what the holder of a session may be given, the oldest first."""
        return [each for each in self.of_session(session_id) if each.is_free(now)]

    def waiting(self, now: int) -> dict[str, list[Expected]]:
        """Return the sessions that nobody holds and that have something to give."""
        names = {each.session_id for each in self.held_in(SubQueue.MAIN)}
        return {
            name: free
            for name in names
            if name is not None
            and self.session(name).nonce is None
            and (free := self.free_of_session(name, now))
        }

    def session(self, session_id: str) -> Session:
        """Return a session, which need not have anything."""
        return self.sessions.setdefault(session_id, Session())

    def check_next(self, accepted: str, waiting: dict[str, list[Expected]]) -> None:
        """No session is given out before one of its fragment that has waited longer."""
        came_at = self.session(accepted).ended_at
        fragment = waiting[accepted][0].fragment
        for name, free in waiting.items():
            since = max(self.session(name).ended_at, free[0].enqueued_at)
            is_passed_over = free[0].fragment == fragment and since < came_at
            assert not is_passed_over, f"{accepted} came before {name}"

    def accept(self, session_id: str, nonce: int, now: int) -> None:
        """Note who holds a session from now on."""
        session = self.session(session_id)
        assert session.nonce is None, "it is held by somebody else"
        session.nonce, session.locked_until = nonce, now + LOCK_DURATION_MS

    def receive_in(
        self, session_id: str, returned: Sequence[StoredMessage], count: int, now: int
    ) -> None:
        """Note what the holder of a session was given: the next messages, and nothing else."""
        session = self.session(session_id)
        following = self.free_of_session(session_id, now)[:count]
        assert [each.content for each in returned] == [each.content for each in following]
        for message, expected in zip(returned, following, strict=True):
            expected.locked_until, expected.nonce = session.locked_until, session.nonce
            check_fields(message, expected)

    def renew_session(self, session_id: str, nonce: int, now: int) -> bool:
        """Note a renewal; return whether it ought to have succeeded."""
        session = self.session(session_id)
        if not session.is_held(nonce, now):
            return False
        session.locked_until = now + LOCK_DURATION_MS
        for message in self.of_session(session_id):
            if message.nonce == nonce:
                message.locked_until = session.locked_until
        return True

    def set_state(self, session_id: str, nonce: int, state: bytes | None, now: int) -> bool:
        """Note a state; return whether it ought to have been kept."""
        session = self.session(session_id)
        if not session.is_held(nonce, now):
            return False
        session.state, session.state_set_at = state, None if state is None else now
        return True

    def release(self, session_id: str, nonce: int, now: int) -> None:
        """Note that a session is given back, if its lock has not ended before."""
        session = self.session(session_id)
        if not session.is_held(nonce, now):
            return
        for message in self.of_session(session_id):
            if message.nonce == nonce:
                message.locked_until = message.nonce = None
        self._end(session, now)

    def sweep(self, now: int, is_online: Callable[[Expected], bool]) -> None:
        """Note what a sweep does to messages; sessions are swept after them."""
        QueueModel.sweep(self, now, is_online)

    def sweep_sessions(self, now: int, is_online: Callable[[str], bool]) -> None:
        """Note which sessions are free again because their lock has ended."""
        for session_id, session in self.sessions.items():
            is_over = session.locked_until is not None and session.locked_until <= now
            if is_over and is_online(session_id):
                self._end(session, now)

    def listed(self, changed_since: int | None, *, ended_at: int = 0) -> set[str]:
        """Return the ids of sessions with active messages or a state, or with a newer state.

        Messages whose time had ended by then do not count.
        """
        if changed_since is not None:
            return {
                name
                for name, each in self.sessions.items()
                if each.state_set_at is not None and each.state_set_at > changed_since
            }
        active = {
            each.session_id
            for each in self.held_in(SubQueue.MAIN)
            if each.state is MessageState.ACTIVE
            and each.session_id is not None
            and (each.expires_at is None or each.expires_at > ended_at)
        }
        return active | {name for name, each in self.sessions.items() if each.state is not None}

    @staticmethod
    def _end(session: Session, now: int) -> None:
        session.locked_until = session.nonce = None
        session.ended_at = now
