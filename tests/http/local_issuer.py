"""An issuer of bearer tokens on this machine: it has keys, serves them, and signs."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bendybus.model.token_issuer import TokenIssuer

AUDIENCE = "https://servicebus.azure.net/"
_ALGORITHMS: dict[str, Any] = {
    "RS256": jwt.algorithms.RSAAlgorithm,
    "ES256": jwt.algorithms.ECAlgorithm,
}

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def new_key(algorithm: str, bits: int = 2048) -> PrivateKey:
    """Make a key pair."""
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


class LocalIssuer:
    """What it serves is up to the test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self.status = 200
        self.location: str | None = None
        self.raw: bytes | None = None
        self.published: dict[str, dict[str, Any]] = {}
        self._keys: dict[str, tuple[str, PrivateKey]] = {}

    @property
    def trusted(self) -> TokenIssuer:
        """What the broker is told of it."""
        return TokenIssuer(self.url, AUDIENCE, f"{self.url}/keys")

    def add_key(
        self, name: str, algorithm: str = "ES256", *, bits: int = 2048, **fields: object
    ) -> None:
        """Make a key and publish its public half, with other fields if so wanted."""
        key = new_key(algorithm, bits)
        self._keys[name] = algorithm, key
        public = json.loads(_ALGORITHMS[algorithm].to_jwk(key.public_key()))
        self.published[name] = public | {"kid": name, "use": "sig", "alg": algorithm} | fields

    def document(self) -> bytes:
        """Return the key set."""
        return json.dumps({"keys": list(self.published.values())}).encode()

    def private_key(self, name: str) -> PrivateKey:
        """Return the half that is not published."""
        return self._keys[name][1]

    def token(self, key: str, *, expires: int, **changes: object) -> str:
        """Sign a token with one of the keys, whether published or not."""
        algorithm, private = self._keys[key]
        return jwt.encode(
            self.payload(expires=expires, **changes), private, algorithm, headers={"kid": key}
        )

    def payload(self, *, expires: int, **changes: object) -> dict[str, Any]:
        """Return what a token says."""
        whole: dict[str, Any] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "exp": expires,
            "sub": "somebody",
            "roles": ["Azure Service Bus Data Owner"],
        }
        return whole | changes


@contextmanager
def local_issuer() -> Iterator[LocalIssuer]:
    """Serve from a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            body = issuer.document() if issuer.raw is None else issuer.raw
            self.send_response(issuer.status)
            if issuer.location is not None:
                self.send_header("Location", issuer.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = LocalIssuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
