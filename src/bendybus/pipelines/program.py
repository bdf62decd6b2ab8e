"""The programs that can be run: those shipped, and copies of them that users changed."""

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from bendybus.pipelines import PIPELINES
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.installed import check_spark
from bendybus.pipelines.options import BusOptions

Result = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a program consists of."""

    options: type[BusOptions]
    run: Callable[..., Result]
    as_text: Callable[[Result], str] | None


@dataclass(frozen=True, slots=True)
class Program:
    """A pipeline's file. Until it is to run it is only read: importing Spark takes long."""

    name: str
    path: Path
    is_shipped: bool = False

    @property
    def source(self) -> str:
        """Its text, as one reads and copies it."""
        return self.path.read_text(encoding="utf-8")

    @property
    def help(self) -> str:
        """What it says of itself; nothing if it cannot be read."""
        try:
            return ast.get_docstring(ast.parse(self.source)) or ""
        except SyntaxError:
            return ""

    @property
    def summary(self) -> str:
        """What it is for, in a line."""
        return self.help.partition("\n")[0]

    def load(self) -> Loaded:
        """Import it. Raises `PipelineFailed` if Spark is missing, or the file is no pipeline."""
        check_spark()
        try:
            if self.is_shipped:
                module = import_module(f"bendybus.pipelines.{self.name}")
            else:
                module = import_file(self.name, self.path)
        except SyntaxError as error:
            place = f"{error.filename}, line {error.lineno}"
            raise PipelineFailed(f"{place}: {error.msg}") from None
        options = getattr(module, "Options", None)
        run = getattr(module, "run", None)
        if not (isinstance(options, type) and issubclass(options, BusOptions) and callable(run)):
            raise PipelineFailed(
                f"{self.path} is no pipeline: it needs a class Options(BusOptions) and a function"
                " run(spark, options, progress); `bendybus pipeline show` prints some"
            )
        return Loaded(options, run, getattr(module, "as_text", None))


def shipped_programs() -> list[Program]:
    """Return the programs that come with the bus."""
    folder = Path(__file__).parent
    return [Program(name, folder / f"{name}.py", is_shipped=True) for name in PIPELINES]


def find_program(name: str) -> Program:
    """Return a shipped program by its name, or anybody's by its path. Raises `PipelineFailed`."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise PipelineFailed(f"there is no file {path}")
        return Program(path.stem, path)
    for program in shipped_programs():
        if program.name == name:
            return program
    near = get_close_matches(name, PIPELINES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PIPELINES)}"
    raise PipelineFailed(f"there is no pipeline '{name}': {hint}")


def import_file(name: str, path: Path) -> ModuleType:
    """Import a file that is on no path, so that its functions also reach Spark's workers."""
    from pyspark import cloudpickle

    spec = spec_from_file_location(f"bendybus_pipeline_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Workers cannot import it: what they need of it is sent to them.
    sys.modules[spec.name] = module
    pickle: Any = cloudpickle
    pickle.register_pickle_by_value(module)
    spec.loader.exec_module(module)
    return module
