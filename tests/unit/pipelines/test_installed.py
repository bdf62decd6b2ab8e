"""Which versions of Spark will do."""

import pytest

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.installed import check_version


@pytest.mark.parametrize("version", ["4.1.0", "4.3.0", "4.10.0", "5.0.0.dev1"])
def test_spark_from_4_1_on_will_do(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["3.5.7", "4.0.1", "unknown"])
def test_an_older_spark_is_refused_with_what_to_install(version: str) -> None:
    with pytest.raises(PipelineFailed, match=rf"{version} is too old, 4\.1 or newer.*pip install"):
        check_version(version)
