"""`bendybus cert`: a certificate for the broker from an authority of one's own."""

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.cli.failure import CommandFailed

DAYS_MAX: Final = 3650
DAYS: Final = 397  # what Apple's systems take at most; other clients take more
USUAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

FolderOption = Annotated[Path, typer.Option(help="Folder for the authority and the certificate.")]
HostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        help="Another name or address that clients call the broker by; may be repeated. Those of"
        " this machine are in it anyway.",
        show_default=False,
    ),
]
DaysOption = Annotated[
    int, typer.Option(min=1, max=DAYS_MAX, help="How long the certificate is valid.")
]
RenewOption = Annotated[
    bool,
    typer.Option(
        "--renew",
        help="Replace the certificate and its key. The authority stays, so nobody has to trust"
        " anything anew; a running broker takes it up by itself.",
    ),
]


def cert(
    folder: FolderOption = Path("bendybus-tls"),
    host: HostOption = None,
    days: DaysOption = DAYS,
    renew: RenewOption = False,
) -> None:
    """Make a certificate for the broker, and an authority that signs it.

    Says how to serve with it and how clients come to trust it. Nothing that is there is replaced
    unless you say `--renew`.
    """
    from bendybus.doors.local_authority import AuthorityFolder, hosts_served, make_certificate

    files = AuthorityFolder(folder)
    for key, certificate in (
        (files.authority_key, files.authority),
        (files.server_key, files.server),
    ):
        if key.exists() and not certificate.exists():
            raise CommandFailed(f"{key} is there without {certificate}; remove it to make both")
    if files.server.exists() and not renew:
        raise CommandFailed(
            f"{files.server} is there already; say --renew to replace it, or choose another"
            " folder with --folder"
        )
    if renew and not files.server.exists():
        raise CommandFailed(f"there is no {files.server} to renew; leave --renew out to make it")
    hosts = hosts_served(files) if renew else (*USUAL_HOSTS, *_own_name())
    now = datetime.now(UTC).replace(microsecond=0)
    made = make_certificate(files, (*hosts, *(host or ())), days, now)
    if made.is_new_authority:
        typer.echo(f"Made {files.authority}, an authority of your own")
        typer.echo(f"  until {made.authority_ends_at:%Y-%m-%d}")
    typer.echo(f"Made {files.server}, signed by it")
    typer.echo(f"  for {', '.join(made.hosts)}")
    typer.echo(f"  until {made.ends_at:%Y-%m-%d}")
    if not renew:
        typer.echo(_instructions(files.authority, files.server, files.server_key))


def _own_name() -> tuple[str, ...]:
    """Return the name of this machine, where it is one that a certificate can have."""
    name = socket.gethostname().lower()
    return (name,) if name.isascii() and "_" not in name else ()


def _instructions(authority: Path, server: Path, key: Path) -> str:
    ca = authority.resolve()
    return f"""
Serve with it:
  bendybus serve --tls-cert {server} --tls-key {key}

Let clients trust the authority. {authority.name} is no secret; {authority.stem}-key.pem is.
  Python   ServiceBusClient.from_connection_string(..., connection_verify="{ca}")
  Node.js  NODE_EXTRA_CA_CERTS={ca} node app.js
  .NET, Go, curl on Debian and Ubuntu
           sudo cp {ca} /usr/local/share/ca-certificates/bendybus.crt
           sudo update-ca-certificates
  Java     keytool -importcert -cacerts -noprompt -alias bendybus -file {ca}
  bendybus --authority {ca}
  Most of OpenSSL
           SSL_CERT_FILE={ca}
Other systems: docs/tls.md"""
