"""The broker that these tests talk to."""

from tests.protocol.messaging.serving import served, template

__all__ = ["served", "template"]
