"""Connection strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.connection_string import ConnectionString, parse_connection_string
from bendybus.model.errors import ArgumentInvalid

EMULATOR = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)


def test_the_emulators_connection_string_is_read_and_written() -> None:
    parsed = parse_connection_string(EMULATOR)
    assert parsed == ConnectionString(
        host="localhost",
        rule_name="RootManageSharedAccessKey",
        key="SAS_KEY_VALUE",
        use_development_emulator=True,
    )
    assert parsed.to_text() == EMULATOR


def test_names_have_no_case_and_the_order_is_free() -> None:
    parsed = parse_connection_string(
        " sharedaccesskey=a=b==; ENDPOINT = sb://Host:5673/ ;SharedAccessKeyName=r;EntityPath=q "
    )
    assert (parsed.host, parsed.port, parsed.key) == ("host", 5673, "a=b==")
    assert (parsed.entity_path, parsed.use_development_emulator) == ("q", False)


def test_a_ready_token_stands_for_the_key() -> None:
    text = "Endpoint=sb://h;SharedAccessSignature=SharedAccessSignature sr=x&sig=y;"
    parsed = parse_connection_string(text)
    assert parsed.token == "SharedAccessSignature sr=x&sig=y"
    assert parsed.to_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no Endpoint"),
        ("SharedAccessKeyName=r;SharedAccessKey=k", "no Endpoint"),
        ("Endpoint=localhost;SharedAccessKeyName=r;SharedAccessKey=k", "must be like"),
        ("Endpoint=sb://;SharedAccessKeyName=r;SharedAccessKey=k", "must be like"),
        ("Endpoint=ftp://h;SharedAccessKeyName=r;SharedAccessKey=k", "must be like"),
        ("Endpoint=sb://h:x;SharedAccessKeyName=r;SharedAccessKey=k", "not an address"),
        ("Endpoint=sb://h", "needs SharedAccessKeyName"),
        ("Endpoint=sb://h;SharedAccessKeyName=r", "needs SharedAccessKeyName"),
        ("Endpoint=sb://h;SharedAccessKey=k;SharedAccessSignature=s", "keep one"),
        ("Endpoint=sb://h;Endpoint=sb://h", "Endpoint twice"),
        ("Endpoint=sb://h;SharedAccessKey=", "empty SharedAccessKey"),
        ("Endpoint=sb://h;Password=x", "part 2 of the connection string begins with none of"),
        ("hello", "part 1 of the connection string begins with none of"),
        ("Endpoint=sb://h;SharedAccessKey", "empty SharedAccessKey"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ArgumentInvalid, match=message):
        parse_connection_string(text)


def test_secrets_do_not_show() -> None:
    assert "SAS_KEY_VALUE" not in repr(parse_connection_string(EMULATOR))
    with pytest.raises(ArgumentInvalid) as refused:
        parse_connection_string("Endpoint=sb://h;SharedAccesKey=hidden-thing")
    assert "hidden-thing" not in str(refused.value)


@given(
    host=st.sampled_from(["localhost", "10.0.0.1", "::1", "broker.example.org"]),
    port=st.none() | st.integers(1, 65535),
    key=st.text("abcXYZ019+/=", min_size=1),
)
def test_what_is_written_is_read_back(host: str, port: int | None, key: str) -> None:
    made = ConnectionString(host=host, port=port, rule_name="r", key=key)
    assert parse_connection_string(made.to_text()) == made


@pytest.mark.parametrize(
    "text",
    [
        "c2VjcmV0LWtleQ==",
        "Endpoint=sb://h;c2VjcmV0LWtleQ==",
        "Endpoint=sb://h;Key=c2VjcmV0LWtleQ==",
    ],
)
def test_a_refusal_does_not_repeat_what_may_be_a_key(text: str) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        parse_connection_string(text)
    assert "c2VjcmV0" not in str(refused.value)
