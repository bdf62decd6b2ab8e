"""Our end of a link on which we send."""

from typing import TypeAlias

from bendybus.amqp.faults import CannotSend
from bendybus.amqp.session import AmqpLink
from bendybus.client.answers import Answers
from bendybus.client.link_end import LinkEnd

Parcel: TypeAlias = tuple[Answers, int]
"""What every delivery carries: where its answer goes."""


class SendingEnd(LinkEnd):
    """Sends as long as there is credit; answers go where the caller said."""

    def __init__(self, link: AmqpLink) -> None:
        super().__init__(link)
        self._sent = 0

    def send(
        self,
        payload: bytes,
        answers: Answers,
        index: int,
        *,
        state: object = None,
        message_format: int = 0,
    ) -> bool:
        """Send one delivery; False if the broker gives no room for it now."""
        self._sent += 1
        try:
            self.link.send(
                payload,
                self._sent.to_bytes(16, "big"),
                settled=False,
                parcel=(answers, index),
                message_format=message_format,
                state=state,
            )
        except CannotSend:
            return False
        answers.note_tried(index)
        return True
