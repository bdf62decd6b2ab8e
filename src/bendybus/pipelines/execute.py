"""Run a pipeline's program from its start to its end, whatever the end is."""

from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bendybus.pipelines.failure import PipelineFailed, reason_of
from bendybus.pipelines.interruption import Interruption
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.program import Loaded, Result
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.reading import Reading
from bendybus.pipelines.session import LOCAL_MASTER, spark_session


def execute(
    name: str,
    program: Loaded,
    options: BusOptions,
    show: Callable[[Reading], None],
    *,
    master: str | None = None,
    confs: Mapping[str, str] | None = None,
) -> Result:
    """Return what came of a pipeline.

    Raises `PipelineFailed` with what went wrong in it, and `KeyboardInterrupt` if it was ended by a
    signal: then it has ended in good order. Only for the main thread, which signals come to.
    """
    show(Reading("starting Spark"))
    with (
        spark_session(f"bendybus {name}", master or LOCAL_MASTER, confs) as spark,
        Interruption(spark) as interruption,
    ):
        progress = Progress(spark, show, interruption)
        try:
            with progress.watched():
                return program.run(spark, options, progress)
        except (PipelineFailed, PySparkException, Py4JError) as error:
            interruption.check()
            raise PipelineFailed(reason_of(error)) from error
