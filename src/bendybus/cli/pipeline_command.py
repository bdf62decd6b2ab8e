"""The command of one pipeline, made from what the pipeline says that it can be told."""

from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer

from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    Output,
    OutputOption,
)
from bendybus.pipelines.options import BusOptions

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: spark://host:7077, yarn, k8s://…; by default every core here.",
        show_default=False,
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", help="A setting of Spark, such as spark.driver.memory=8g; may repeat."),
]
FlightOption = Annotated[
    str | None,
    typer.Option(
        "--flight-endpoint",
        envvar="BENDYBUS_FLIGHT_ENDPOINT",
        help="Where the broker gives and takes bulk data; by default port 5301 of its host.",
        show_default=False,
    ),
]
TracebackOption = Annotated[
    bool, typer.Option("--traceback", help="After a failure, all that Spark has to say of it.")
]


def _option(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


# Where the bus is, in the same words as for every other command.
_OF_THE_BUS: Final = (
    _option("connection_string", ConnectionOption, DEVELOPMENT_CONNECTION),
    _option("flight_endpoint", FlightOption, None),
    _option("authority", AuthorityOption, None),
)
_OF_SPARK: Final = (
    _option("master", MasterOption, None),
    _option("conf", ConfOption, None),
    _option("output", OutputOption, Output.TABLE),
    _option("is_traceback_shown", TracebackOption, False),
)


def pipeline_signature(options: type[BusOptions]) -> Signature:
    """Return the parameters that a pipeline's command has."""
    inherited = {field.name for field in fields(BusOptions)}
    hints = get_type_hints(options, include_extras=True)
    own = [
        _parameter(field, hints[field.name])
        for field in fields(options)
        if field.name not in inherited
    ]
    return Signature([*own, *_OF_THE_BUS, *_OF_SPARK])


def read_options(options: type[BusOptions], said: dict[str, Any]) -> BusOptions:
    """Make a pipeline's options of what was said; the rest stays in `said`."""
    taken: dict[str, Any] = {field.name: said.pop(field.name) for field in fields(options)}
    for name, value in taken.items():
        if _is_repeated(options, name):
            taken[name] = tuple(value or ())
    return options(**taken)


def _parameter(field: Field[Any], hint: Any) -> Parameter:  # noqa: ANN401 - any type
    kind, *texts = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    text = texts[0] if texts else ""
    if field.default is MISSING and field.default_factory is MISSING:
        return _option(field.name, Annotated[kind, typer.Argument(help=text)])
    name = f"--{field.name.replace('_', '-')}"
    if get_origin(kind) is tuple:
        repeated = Annotated[list[str] | None, typer.Option(name, help=text)]
        return _option(field.name, repeated, None)
    return _option(field.name, Annotated[kind, typer.Option(name, help=text)], field.default)


def _is_repeated(options: type[BusOptions], name: str) -> bool:
    return get_origin(get_type_hints(options)[name]) is tuple
