"""Bearer tokens (JWT): the issuer's signature, then what it signs (`model/token_issuer.py`)."""

from datetime import datetime
from typing import Any

from bendybus.broker.issuer_keys import ALGORITHMS, IssuerKeys
from bendybus.model.access import TOKEN_LENGTH_MAX, Claims
from bendybus.model.errors import AuthenticationFailed, TokenMalformed
from bendybus.model.token_issuer import TokenIssuer, claims_of_payload


class BearerTokens:
    """Checks the tokens of one issuer."""

    def __init__(self, issuer: TokenIssuer, keys: IssuerKeys) -> None:
        self._issuer = issuer
        self.keys = keys

    async def claims(self, token: str, *, now: datetime) -> Claims:
        """Check a token. Raises `AuthenticationFailed`, or `ServerBusy` while no keys are known."""
        import jwt

        if len(token) > TOKEN_LENGTH_MAX:
            raise TokenMalformed(
                f"MalformedToken: The token is longer than {TOKEN_LENGTH_MAX} characters."
            )
        key = await self.keys.key(_key_name(token))
        try:
            payload: dict[str, Any] = jwt.decode(
                token,
                key.key,
                # Whatever the token says of it: a key signs in one way only.
                algorithms=[key.algorithm],
                # What is signed is checked by our own clock.
                options={
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_iss": False,
                    "verify_jti": False,
                    "verify_nbf": False,
                    "verify_sub": False,
                },
            )
        except jwt.PyJWTError:
            raise AuthenticationFailed(
                "InvalidSignature: The token has an invalid signature."
            ) from None
        return claims_of_payload(payload, self._issuer, now=now)


def _key_name(token: str) -> str:
    """Return the key that a token names; where else keys could be found does not count."""
    import jwt

    try:
        header: dict[str, Any] = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenMalformed(
            "MalformedToken: The token is neither a shared access signature nor a JWT."
        ) from None
    name, algorithm = header.get("kid"), header.get("alg")
    if algorithm not in ALGORITHMS.values():
        raise AuthenticationFailed(
            f"InvalidToken: The token must be signed with {' or '.join(ALGORITHMS.values())}."
        )
    if not isinstance(name, str):
        raise AuthenticationFailed("InvalidToken: The token does not name its key (kid).")
    return name
