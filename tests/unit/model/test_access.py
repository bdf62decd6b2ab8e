"""Shared access tokens: what opens, and that nothing else does."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bendybus.model.access import (
    TOKEN_LENGTH_MAX,
    AccessRule,
    Claims,
    Keyring,
    Right,
    log_in,
    make_sas,
    normalise_audience,
    read_sas,
)
from bendybus.model.errors import AuthenticationFailed, TokenMalformed, Unauthorized

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
LATER_SECONDS = int(LATER.timestamp())
ROOT = AccessRule("Root", "primary", frozenset({Right.MANAGE}), "secondary")
LISTENER = AccessRule("Listener", "listen-key", frozenset({Right.LISTEN}))
RULES = (LISTENER, ROOT)


def signed(sr: str, *, se: int = LATER_SECONDS, key: str = "primary") -> dict[str, str]:
    """Sign independently of the code under test, with `sr` as it is to stand in the token."""
    digest = hmac.new(key.encode(), f"{sr}\n{se}".encode(), hashlib.sha256).digest()
    return {"sr": sr, "sig": quote(base64.b64encode(digest), safe=""), "se": str(se), "skn": "Root"}


def token(parts: dict[str, str]) -> str:
    return "SharedAccessSignature " + "&".join(f"{name}={value}" for name, value in parts.items())


def verify(
    text: str,
    audience: str = "/orders",
    now: datetime = NOON,
    rules: tuple[AccessRule, ...] = RULES,
) -> Claims:
    claims = read_sas(text, Keyring(rules))
    claims.check_unexpired(now)
    claims.check_covers(audience)
    return claims


def test_a_good_token_gives_the_rights_of_its_rule() -> None:
    claims = verify(make_sas("sb://localhost/Orders", "Root", "primary", LATER))
    assert claims == Claims("Root", frozenset(Right), "orders", LATER)


def test_manage_implies_the_other_rights_and_listen_does_not() -> None:
    listener = verify(make_sas("sb://localhost/", "Listener", "listen-key", LATER))
    assert [right for right in Right if listener.allows(right)] == [Right.LISTEN]
    listener.require(Right.LISTEN, "orders")
    with pytest.raises(Unauthorized, match="'Send' claim"):
        listener.require(Right.SEND, "orders")


@pytest.mark.parametrize("key", ["primary", "secondary"])
def test_both_keys_of_a_rule_sign(key: str) -> None:
    assert verify(token(signed("sb%3a%2f%2fh%2forders", key=key))).holder == "Root"


@pytest.mark.parametrize(
    "sr",
    [
        "sb://localhost/orders",
        "sb%3A%2F%2Flocalhost%2Forders",
        "sb%3a%2f%2flocalhost%2forders",
        "http%3a%2f%2flocalhost%3a5300%2forders%3fapi-version%3d2021-05",
        "amqps%3A%2F%2FLOCALHOST%3A5671%2FORDERS%2F",
        "sb%3A%2F%2Flocalhost%2Forders%2F%24management",
        "sb%3A%2F%2Flocalhost%2F",
        "sb%3A%2F%2Flocalhost",
    ],
)
def test_the_resource_is_signed_as_it_stands_however_a_client_encodes_it(sr: str) -> None:
    assert verify(token(signed(sr))).holder == "Root"


def test_the_parameters_may_come_in_any_order() -> None:
    parts = signed("sb://h/orders")
    assert verify(token(dict(reversed(parts.items())))).holder == "Root"


def test_the_signature_may_be_left_unencoded() -> None:
    # Take an expiry whose signature holds the characters that encoding is about.
    candidates = (signed("sb://h/orders", se=LATER_SECONDS + extra) for extra in range(1000))
    parts = next(each for each in candidates if "%2B" in each["sig"] and "%2F" in each["sig"])
    raw = parts["sig"].replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")
    assert verify(token(parts | {"sig": raw})).holder == "Root"


@given(st.text(min_size=1, max_size=20))
def test_a_rule_name_may_be_encoded_once_or_twice(name: str) -> None:
    rules = (AccessRule(name, "key", frozenset({Right.SEND})),)
    once = make_sas("sb://h/orders", name, "key", LATER)
    head, _, skn = once.rpartition("skn=")
    for text in (once, f"{head}skn={quote_plus(skn)}"):
        assert verify(text, "orders", rules=rules).holder == name


@given(
    resource=st.text("abz/._-%$ A+é", max_size=20),
    key=st.text(min_size=1, max_size=40),
    seconds=st.integers(1, 10**9),
)
def test_whatever_is_signed_here_is_accepted_here(resource: str, key: str, seconds: int) -> None:
    rules = (AccessRule("r", key, frozenset({Right.SEND})),)
    expires_at = NOON + timedelta(seconds=seconds)
    text = make_sas(f"sb://host/{resource}", "r", key, expires_at)
    claims = verify(text, f"sb://host/{resource}", rules=rules)
    assert claims.expires_at == expires_at


@given(part=st.sampled_from(["sr", "sig", "se", "skn"]), data=st.data())
def test_changing_any_character_of_any_part_is_refused(part: str, data: st.DataObject) -> None:
    parts = signed("sb%3A%2F%2Fh%2Forders")
    at = data.draw(st.integers(0, len(parts[part]) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=126))
    changed = parts[part][:at] + other + parts[part][at + 1 :]
    # %2b and %2B are one signature; everything else is signed letter by letter.
    assume(changed.lower() != parts[part].lower() if part == "sig" else changed != parts[part])
    with pytest.raises(AuthenticationFailed):
        verify(token(parts | {part: changed}))


@given(st.text(max_size=200))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    for candidate in (text, f"SharedAccessSignature {text}"):
        with pytest.raises(AuthenticationFailed):
            verify(candidate)


def test_a_wrong_key_and_an_unknown_rule_get_the_same_answer() -> None:
    wrong_key = token(signed("sb://h/orders", key="guess"))
    unknown_rule = token(signed("sb://h/orders") | {"skn": "Nobody"})
    for text in (wrong_key, unknown_rule):
        with pytest.raises(AuthenticationFailed) as refused:
            verify(text)
        assert refused.value.message == "InvalidSignature: The token has an invalid signature."


def test_a_key_signs_only_for_its_own_rule() -> None:
    with pytest.raises(AuthenticationFailed, match="InvalidSignature"):
        verify(token(signed("sb://h/orders", key="listen-key")))


def test_a_token_ends_at_its_expiry() -> None:
    text = make_sas("sb://h/orders", "Root", "primary", LATER)
    assert verify(text, now=LATER - timedelta(microseconds=1)).expires_at == LATER
    with pytest.raises(AuthenticationFailed, match=r"ExpiredToken: .* 2026-01-01T13:00:00Z"):
        verify(text, now=LATER)


def test_an_expiry_beyond_all_calendars_is_the_last_moment_there_is() -> None:
    claims = verify(token(signed("sb://h/orders", se=10**17)))
    assert claims.expires_at.year == 9999


@pytest.mark.parametrize(
    ("resource", "audience", "is_covered"),
    [
        ("sb://h/orders", "orders", True),
        ("sb://h/orders", "sb://other:5672/ORDERS/", True),
        ("sb://h/orders", "orders/$DeadLetterQueue", True),
        ("sb://h/orders", "orders/$management", True),
        ("sb://h/orders", "amqp://h/orders/$DeadLetterQueue/$management", True),
        ("sb://h/a", "a/b", True),
        ("sb://h/a%2Fb", "a/b", True),
        ("sb://h/", "$stores/3/offline", True),
        ("sb://h/orders", "orders2", False),
        ("sb://h/orders", "order", False),
        ("sb://h/a/b", "a", False),
        ("sb://h/orders", "", False),
        ("sb://h/orders", "sb://[", False),
        ("sb://h/orders", "/x://host/orders", False),
        ("sb://h/$management", "orders", False),
        ("sb://h/orders/$DeadLetterQueue", "orders", False),
    ],
)
def test_a_token_covers_its_path_and_what_is_below_it(
    resource: str, audience: str, is_covered: bool
) -> None:
    text = make_sas(resource, "Root", "primary", LATER)
    if is_covered:
        assert verify(text, audience).covers(audience)
    else:
        with pytest.raises(AuthenticationFailed, match="InvalidAudience"):
            verify(text, audience)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must start with"),
        ("Bearer abc", "must start with"),
        ("SharedAccessSignature ", "Unexpected parameter ''"),
        ("SharedAccessSignature sr=a&sig=b&se=1", "lacks 'skn'"),
        ("SharedAccessSignature sr=&sig=b&se=1&skn=c", "lacks 'sr'"),
        ("SharedAccessSignature sr=a&sr=a&sig=b&se=1&skn=c", "Unexpected parameter 'sr'"),
        ("SharedAccessSignature sr=a&sig=b&se=1&skn=c&x=y", "Unexpected parameter 'x'"),
        ("SharedAccessSignature sr=orders&sig=b&se=1&skn=c", "absolute URI"),
        ("SharedAccessSignature sr=/sb://h/orders&sig=b&se=1&skn=c", "absolute URI"),
        ("SharedAccessSignature sr=sb://h&sig=b&se=-1&skn=c", "'se' must be"),
        ("SharedAccessSignature sr=sb://h&sig=b&se=1.5&skn=c", "'se' must be"),
        ("SharedAccessSignature sr=sb://h&sig=b&se=٣&skn=c", "'se' must be"),
        ("SharedAccessSignature sr=sb://h&sig=b&se=" + "9" * 19 + "&skn=c", "'se' must be"),
        ("SharedAccessSignature " + "x" * TOKEN_LENGTH_MAX, "longer than"),
    ],
)
def test_what_is_no_token_is_told_apart(text: str, message: str) -> None:
    with pytest.raises(TokenMalformed, match=message):
        verify(text)


@given(st.text("ab/%2Fé$:", max_size=30))
def test_an_audience_with_and_without_its_host_is_the_same(path: str) -> None:
    assume("://" not in path)
    assume("?" not in path)
    assert normalise_audience(f"sb://host:5672/{path}") == normalise_audience(f"/{path}")


@given(st.text(max_size=50), st.sampled_from(["", "sb://", "sb://[", "sb://h/"]))
def test_any_text_does_as_an_audience_and_is_normal_once_normalised(text: str, head: str) -> None:
    path = normalise_audience(head + text)
    assert path == path.strip("/")
    assert "//" not in path


def test_a_path_that_holds_a_uri_is_not_taken_for_one() -> None:
    assert normalise_audience("/x://host/orders") == "x:/host/orders"


@pytest.mark.parametrize("tail", ["?a=/b", "#/b", "/?x", ""])
def test_a_query_or_fragment_is_no_part_of_the_path(tail: str) -> None:
    assert normalise_audience(f"https://host:5300/orders{tail}") == "orders"


def test_nothing_but_a_comparison_in_constant_time_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    good = make_sas("sb://localhost/orders", "Root", "primary", LATER)
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: False)
    with pytest.raises(AuthenticationFailed):
        verify(good)
    with pytest.raises(AuthenticationFailed):
        log_in("Root", "primary", RULES, expires_at=LATER)


def test_keys_do_not_show_when_a_rule_is_printed() -> None:
    assert "primary" not in repr(ROOT).replace("primary_key", "")
    assert "secondary" not in repr(ROOT).replace("secondary_key", "")


@pytest.mark.parametrize("key", ["primary", "secondary"])
def test_a_name_and_either_of_its_keys_log_in(key: str) -> None:
    assert log_in("Root", key, RULES, expires_at=LATER) == Claims(
        "Root", frozenset(Right), "", LATER
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Root", "listen-key"),
        ("root", "primary"),
        ("", "primary"),
        ("Root", ""),
        ("Root", "primar"),
        ("Nobody", "primary"),
    ],
)
def test_another_name_or_key_does_not_log_in(name: str, key: str) -> None:
    with pytest.raises(AuthenticationFailed, match="The name or the key is wrong"):
        log_in(name, key, RULES, expires_at=LATER)
