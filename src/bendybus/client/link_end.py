"""Our end of one link: what the broker did to it, kept until a step looks."""

from bendybus.amqp.events import TransferReceived
from bendybus.amqp.link_state import LinkInput
from bendybus.amqp.performatives import Attach
from bendybus.amqp.session import AmqpLink, LinkRole
from bendybus.client.errors import ClientError


class LinkEnd:
    """A link that we asked for. It is usable once it is open and until it has a failure."""

    def __init__(self, link: AmqpLink) -> None:
        self.link = link
        self.failure: ClientError | None = None
        self.attach: Attach | None = None
        """The broker's answer."""

    @property
    def is_open(self) -> bool:
        """Whether the broker took the link."""
        if self.attach is None or self.failure is not None:
            return False
        # A refusal is an Attach without the terminus we asked for; a Detach with the reason
        # follows (AMQP 1.0 §2.6.3).
        is_sender = self.link.role is LinkRole.SENDER
        return (self.attach.target if is_sender else self.attach.source) is not None

    @property
    def is_gone(self) -> bool:
        """Whether the broker has let go of the link, too."""
        return not self.link.can(LinkInput.RECEIVE_DETACH)

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if self.failure is not None:
            # One error may be raised for many calls: each begins its own traceback.
            raise self.failure.with_traceback(None)

    def take_attach(self, attach: Attach) -> None:
        """Note the broker's Attach."""
        self.attach = attach

    def take_transfer(self, event: TransferReceived) -> None:
        """Take a delivery; only ends that receive get any."""
        raise AssertionError(f"{self.link!r} got delivery {event.delivery_id}")

    def fail(self, failure: ClientError) -> None:
        """Note why the link is over; the first reason counts."""
        if self.failure is None:
            self.failure = failure
