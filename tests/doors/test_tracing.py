"""Whether traces are written is said by OpenTelemetry's variables; a mistake in them refuses."""

import pytest

from bendybus.doors.tracing import are_wanted, tracing
from bendybus.model.errors import StartRefused

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "OTLP"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_variables_of_opentelemetry_say_whether_traces_are_written(
    environment: dict[str, str], is_wanted: bool
) -> None:
    assert are_wanted(environment) is is_wanted


def test_another_way_out_is_refused_and_says_which_there_is() -> None:
    with pytest.raises(StartRefused, match=r"'zipkin'.*set it to 'otlp' or 'none'"):
        are_wanted({"OTEL_TRACES_EXPORTER": "zipkin"})


def test_without_the_packages_it_is_said_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bendybus.doors.tracing.find_spec", lambda _: None)
    with (
        pytest.raises(
            StartRefused, match=r"OTEL_EXPORTER_OTLP_ENDPOINT .*pip install 'bendybus\[traces\]'"
        ),
        tracing(ENDPOINT),
    ):
        pass
