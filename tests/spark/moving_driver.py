"""A Spark driver of its own, to be killed: moves all messages of one entity to another.

moving_driver.py FOLDER SOURCE TARGET
"""

import sys
from pathlib import Path

from bendybus.pipelines.session import spark_session


def main(folder: Path, source: str, target: str) -> None:
    """Move what is there now, from where the last run came to."""
    with spark_session("moving", "local[2,4]") as spark:
        frame = (
            spark.readStream.format("servicebus")
            .options(entity=source, mode="consume", reader="mover", readerToken="mine")
            .options(maxMessagesPerTrigger="1000")
            .load()
        )
        writer = frame.select("body", "message_id").writeStream.format("servicebus")
        writer = writer.options(entity=target, checkpointLocation=str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
