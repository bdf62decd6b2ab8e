"""Protocol headers and SASL, from both sides (AMQP 1.0 §2.2, §5.3).

    client  SASL header ............ init ......... AMQP header, then Open
    server  ........... SASL header, mechanisms ... outcome ... AMQP header

A client may leave SASL out. Clients pipeline, so the server's half answers whatever is next.
"""

from __future__ import annotations

from bendybus.amqp.conditions import FRAMING_ERROR, UNAUTHORIZED_ACCESS
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.connection_state import ConnectionInput
from bendybus.amqp.faults import ConnectionFault
from bendybus.amqp.frames import AMQP_HEADER, SASL_HEADER, describe_foreign_bytes, encode_sasl_frame
from bendybus.amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from bendybus.amqp.sasl import SaslCode


def header_input(header: bytes) -> ConnectionInput:
    """Say which happening eight bytes are; raise a fault if they are no header of ours."""
    if header == AMQP_HEADER:
        return ConnectionInput.RECEIVE_AMQP_HEADER
    if header == SASL_HEADER:
        return ConnectionInput.RECEIVE_SASL_HEADER
    raise ConnectionFault(FRAMING_ERROR, describe_foreign_bytes(header))


def may_become_header(start: bytes) -> bool:
    """Tell whether fewer than eight bytes may still grow into a header."""
    return AMQP_HEADER.startswith(start) or SASL_HEADER.startswith(start)


def header_answer(role: Role, settings: ConnectionSettings, happening: ConnectionInput) -> bytes:
    """Return what a server sends at once upon a header. A client has sent its own before."""
    if role is Role.CLIENT:
        return b""
    if happening is ConnectionInput.RECEIVE_SASL_HEADER:
        return SASL_HEADER + encode_sasl_frame(SaslMechanisms(settings.sasl_mechanisms))
    return AMQP_HEADER


def choose_mechanism(settings: ConnectionSettings, offered: SaslMechanisms) -> bytes:
    """Return the client's sasl-init frame, or raise a fault if the server offers nothing usable."""
    name = settings.sasl_username
    if name is None:
        init = SaslInit("ANONYMOUS", b"", settings.hostname)
    else:
        response = f"\0{name}\0{settings.sasl_password}".encode()
        init = SaslInit("PLAIN", response, settings.hostname)
    if init.mechanism not in offered.mechanisms:
        names = ", ".join(offered.mechanisms)
        raise ConnectionFault(
            UNAUTHORIZED_ACCESS, f"the server does not offer {init.mechanism} but {names}"
        )
    return encode_sasl_frame(init)


def check_outcome(outcome: SaslOutcome) -> None:
    """Raise a fault unless the server let us in."""
    if outcome.code != SaslCode.OK:
        raise ConnectionFault(
            UNAUTHORIZED_ACCESS, f"the server refused our credentials: SASL code {outcome.code}"
        )
