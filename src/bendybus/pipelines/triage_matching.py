"""Rules of a triage as Spark's expressions: which rule a dead letter falls under, and its edits."""

from collections.abc import Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from bendybus.columns.schema import spark_schema
from bendybus.pipelines.dead_letter_places import SUBSCRIPTIONS
from bendybus.pipelines.triage_rules import BODY, PROPERTY, Expression, Rule

# What an expression sees: the columns of a message, and these.
LETTER_SCHEMA: Final = (
    f"{spark_schema()}, `entity` STRING, `subscription` STRING, `exception_text` STRING"
)
_PROPERTY_TYPES: Final = (StringType, BooleanType, NumericType, BinaryType, TimestampType)
_COMPOSED: Final = (ArrayType, MapType, StructType)


def rule_of(rules: Sequence[Rule]) -> Column:
    """Return the number of the first rule that matches; null if none does."""
    found = F.lit(None).cast("int")
    for number, rule in reversed(list(enumerate(rules))):
        found = F.when(_matches(rule), F.lit(number)).otherwise(found)
    return found


def check_expressions(spark: SparkSession, rules: Sequence[Rule]) -> None:
    """Refuse what Spark does not understand, or what gives the wrong type; nothing is run."""
    letters = spark.createDataFrame([], LETTER_SCHEMA)
    for rule in rules:
        if rule.match.where is not None:
            kind = _type_of(letters, rule.match.where)
            if not isinstance(kind, BooleanType):
                raise rule.match.where.place.refuse(
                    f"must be true or false, not {kind.simpleString()}"
                )
        for name, expression in rule.changes.items():
            _check_type(name, _type_of(letters, expression), expression)


def edited(name: str, expression: Expression, letters: DataFrame) -> Column:
    """Return a new value in a type that the broker can take."""
    value = F.expr(expression.text)
    if name == BODY:
        return value.cast("binary")
    if not name.startswith(PROPERTY):
        return value.cast("string")
    # A plain 1.5 is a decimal in SQL, which no client of ours can read as a property.
    kind = _type_of(letters, expression)
    return value.cast("double") if isinstance(kind, DecimalType) else value


def _matches(rule: Rule) -> Column:
    match = rule.match
    place = F.when(F.col("subscription").isNull(), F.col("entity")).otherwise(
        F.concat("entity", F.lit(SUBSCRIPTIONS), "subscription")
    )
    whole = F.lit(True)
    for patterns, column in (
        (match.entities, place),
        (match.reasons, F.coalesce("dead_letter_reason", F.lit(""))),
        (match.texts, F.col("exception_text")),
    ):
        if patterns:
            some = F.lit(False)
            for pattern in patterns:
                some |= column.like(_as_like(pattern))
            whole &= some
    if match.where is not None:
        # What is unknown is not true.
        whole &= F.coalesce(F.expr(match.where.text), F.lit(False))
    return whole


def _as_like(pattern: str) -> str:
    """Write a pattern with stars as LIKE has it."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, f"\\{special}")
    return pattern.replace("*", "%")


def _type_of(letters: DataFrame, expression: Expression) -> DataType:
    """Let Spark analyse an expression of one message. Raises `ConfigInvalid` at its place."""
    try:
        # Beside a plain column, one that counts or sums over messages is refused.
        frame = letters.select("sequence_number", F.expr(expression.text).alias("value"))
        return frame.schema["value"].dataType
    except PySparkException as error:
        text = str(error).strip().splitlines()[0].partition(" SQLSTATE")[0]
        raise expression.place.refuse(f"Spark says: {text}") from None


def _check_type(name: str, kind: DataType, expression: Expression) -> None:
    shown = kind.simpleString()
    if name == BODY:
        if not isinstance(kind, StringType | BinaryType):
            raise expression.place.refuse(f"a body must be a text or binary, not {shown}")
    elif name.startswith(PROPERTY):
        if shown != "void" and not isinstance(kind, _PROPERTY_TYPES):
            raise expression.place.refuse(f"a property cannot be of the type {shown}")
    elif isinstance(kind, _COMPOSED):
        raise expression.place.refuse(f"must be a text, not {shown}")
