"""`BatchSettings`: all settings that determine the results of a batch run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill.batch.conversion import RowConverter
from graphmill.batch.rows import RowReader
from graphmill.batch.runner import BatchRunner
from graphmill.errors import InvalidArgumentError
from graphmill.inputs.image_input import ImageOptions
from graphmill.inputs.input_values import load as load_input
from graphmill.inputs.notes import each_once
from graphmill.inputs.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.models.loaded_model import LoadedModel
    from graphmill.models.summary import Port
    from graphmill.plugin.host import Host


_SECONDS_BEFORE_COMPILING: Final = 1.0
"""The seconds that the steps of a run take, all together, before its model is compiled.

JAX takes about as long to be imported and to compile a small model, which slows the threads that
read, decode and run. A shorter run never pays for that; a longer one pays at most twice.
"""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The model, and how rows become its inputs. All values are JSON data.

    Attributes:
        model: the path of a SavedModel, GraphDef or MetaGraph.
        batch_size: the number of rows in a step.
        tags, signature, fetches: as for `graphmill run`.
        device, executor, forbid, allow, trust: as for `graphmill run`.
        timeout: the seconds that a step may take; None for no limit.
        keep_going: whether rows that fail are reported and left out.
        queue_runners: whether threads fill the model's queues.
        columns: the columns of tables that the only input takes; empty to choose by name.
        whole_files: whether a text file is one text, rather than one on each line.
        resize, pixels: how images are converted; see `ImageOptions`.
        sources: inputs that are the same for all rows, as the fields of a `Source` of the command
            line.
    """

    model: str
    batch_size: int = 32
    tags: str | None = None
    signature: str | None = None
    fetches: tuple[str, ...] = ()
    device: str | None = None
    executor: str | None = None
    forbid: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    trust: bool = False
    timeout: float | None = None
    keep_going: bool = False
    queue_runners: bool = False
    columns: tuple[str, ...] = ()
    whole_files: bool = False
    resize: bool = False
    pixels: str = ""
    sources: tuple[tuple[str, str, str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that is ready to run rows: their reader, and the runner of batches."""

    runner: BatchRunner
    reader: RowReader


def load(settings: BatchSettings, host: Host, threads: int = 0) -> LoadedModel:
    """Load the model.

    Args:
        settings: the model and the options of its session.
        host: the host to run it on.
        threads: the threads that one kernel may use; 0 for the default.
    """
    from graphmill.models.loaded_model import load_model
    from graphmill.models.placement import session_placement

    host, config = session_placement(
        host,
        settings.device,
        settings.executor,
        settings.forbid,
        settings.allow,
        trust=settings.trust,
    )
    config.graphmill.jit_after_seconds = _SECONDS_BEFORE_COMPILING
    if threads:
        config.intra_op_parallelism_threads = threads
    return load_model(
        settings.model,
        host,
        tags=settings.tags,
        signature=settings.signature,
        fetches=settings.fetches,
        config=config,
    )


def prepare(
    settings: BatchSettings,
    model: LoadedModel,
    constants: Mapping[str, Any],
    on_note: Callable[[str], None],
) -> Prepared:
    """Return the reader of rows and the runner of batches.

    Args:
        settings: how rows are read and run.
        model: the model.
        constants: the inputs that are the same for all rows, as the model takes them.
        on_note: is called with notes, each once, such as on inputs that keep their default.

    Raises:
        OpError: `constants` has an input that the model lacks, or leaves none for the rows.
    """
    typed = model.named({source[0]: Source(*source) for source in settings.sources})
    fixed = {*constants, *typed}
    model.ports({*model.inputs, *fixed})
    open_ports = {name: port for name, port in model.inputs.items() if name not in fixed}
    specs = {name: port.spec() for name, port in open_ports.items() if not _keeps_default(port)}
    if not specs:
        error = InvalidArgumentError(f"{model.name} has no input that rows could feed")
        error.add_note("the values of inputs on the command line are the same for all rows")
        raise error
    note_once = each_once(on_note)
    for name in sorted((open_ports.keys() - specs.keys()) & model.needed_inputs().keys()):
        note_once(
            f"input {name!r} keeps its default; {name}=VALUE (inputs=) gives all rows another"
        )

    def note_pixels(text: str) -> None:
        # The text names the image; all images of a run are scaled alike.
        note_once(f"the pixels of images are scaled {text.partition(' are scaled ')[2]}")

    images = ImageOptions(resize=settings.resize, pixels=settings.pixels, on_note=note_pixels)
    values = {
        name: load_input(source, model.ports({*model.inputs, name})[name].spec(), images)
        for name, source in typed.items()
    }
    converter = RowConverter(specs, images)
    reader = RowReader(
        converter.row_specs, settings.columns, whole_files=settings.whole_files, on_note=note_once
    )
    runner = BatchRunner(
        model,
        converter,
        constants={**constants, **values},
        batch_size=settings.batch_size,
        timeout=settings.timeout,
        keep_going=settings.keep_going,
    )
    return Prepared(runner, reader)


def _keeps_default(port: Port) -> bool:
    """Return whether an input has a default, and no known batch dimension for rows."""
    return port.has_default and not port.shape


def threads_of_a_job(jobs: int) -> int:
    """Return the number of threads that a kernel may use if several processes share the CPU."""
    return 0 if jobs == 1 else max(1, (os.cpu_count() or 1) // jobs)
