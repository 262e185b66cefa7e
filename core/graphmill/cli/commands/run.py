"""`graphmill run`: feed a model from files and values, and print its outputs."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmill.cli import input_args
from graphmill.cli.batch_run import (
    BATCH_OPTIONS,
    batch_options,
    check_batch_options,
    refuse_with_each,
    run_batch,
)
from graphmill.cli.completion import complete_device, complete_model_or_input
from graphmill.cli.options import (
    Settings,
    allow_option,
    common_options,
    dir_option,
    pass_settings,
    pixels_option,
    queue_runners_option,
    signature_option,
    tags_option,
    take_model,
    trust_option,
)
from graphmill.cli.output.formatting import emit
from graphmill.cli.output.progress import stage
from graphmill.cli.output.visible_text import say
from graphmill.errors import AlreadyExistsError, InvalidArgumentError
from graphmill.ops.definition.effects import EFFECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np

    from graphmill.cli.output.formatting import Block
    from graphmill.inputs.source import Source
    from graphmill.models.loaded_model import RunnableModel
    from graphmill.timeline import Timeline


@click.command()
@click.argument(
    "arguments",
    nargs=-1,
    metavar="MODEL [[NAME=]@FILE | [NAME=]VALUE]...",
    shell_complete=complete_model_or_input,
)
@click.option(
    "--top", type=click.IntRange(min=1), help="Show only the N largest values of each output."
)
@click.option("--labels", type=click.Path(), help="For --top: a file with one class name per line.")
@click.option("--fetch", "fetches", multiple=True, help="Fetch this tensor instead, such as x:0.")
@click.option(
    "--device",
    help="Prefer devices of this type, such as NPU, where they have a kernel.",
    shell_complete=complete_device,
)
@click.option("--executor", help="The executor_type of the session, such as INLINE.")
@click.option(
    "--forbid",
    multiple=True,
    type=click.Choice(sorted(EFFECTS)),
    help="Refuse ops that may have this effect; may be repeated.",
)
@allow_option
@trust_option
@click.option(
    "--isolate", is_flag=True, help="Run the model in a process that the system restricts (Linux)."
)
@click.option(
    "--limit",
    multiple=True,
    metavar="NAME=VALUE",
    help="For --isolate: a limit of the process, such as memory_bytes=2000000000; may be repeated.",
)
@click.option("--timeout", type=click.FloatRange(min=0.001), help="End the run after N seconds.")
@queue_runners_option
@tags_option
@signature_option
@click.option("--resize", is_flag=True, help="Scale images to the size of the input.")
@pixels_option
@click.option(
    "--outdir", type=click.Path(), help="Also write each output to a .npy file in this folder."
)
@click.option("--overwrite", is_flag=True, help="Let --outdir or --out replace existing files.")
@click.option(
    "--trace",
    type=click.Path(),
    help="Write a trace for Perfetto or chrome://tracing to this file.",
)
@click.option(
    "--trace-steps",
    type=click.IntRange(min=1),
    help="For --trace: run this many steps, 1 unless given; from the fourth on, compiled code may "
    "run.",
)
@click.option(
    "--node-times",
    is_flag=True,
    help="For --trace: measure the nodes in compiled code with JAX's profiler.",
)
@batch_options
@dir_option
@click.option("--inputs", default="", help="Inputs as in saved_model_cli: 'x=f.npy;y=g.npz[k]'.")
@click.option("--input_exprs", default="", help="Inputs as expressions: 'x=np.ones((1, 3))'.")
@click.option("--input_examples", default="", help="tf.Examples: 'x=[{\"age\": [22.0]}]'.")
@common_options
@pass_settings
def run(
    settings: Settings,
    /,
    *,
    arguments: tuple[str, ...],
    folder: str | None,
    inputs: str,
    input_exprs: str,
    input_examples: str,
    **given: Any,
) -> None:
    """Run MODEL on inputs and print its outputs.

    MODEL is the folder of a SavedModel, or a GraphDef (.pb, .pbtxt, .json) or MetaGraph (.meta).
    NAME is an input of its signature; in a GraphDef, a tensor; the only input needs none. FILE is
    a .npy, .npz (also FILE[KEY]), .json, .txt, .png or .jpg; VALUE a literal such as 0.5 or
    [[1, 2]].

    For example: graphmill run MODEL image=@seven.png --top 3 --device NPU

    With --each, run MODEL on all rows of files, and write a row of outputs for each to --out:
    graphmill run MODEL --each 'pics/*.png' --batch 32 --out result.csv
    """
    model, short = take_model(arguments, folder)
    sources = input_args.unique([
        *input_args.parse_short(short),
        *input_args.parse_inputs(inputs),
        *input_args.parse_expressions(input_exprs),
        *input_args.parse_examples(input_examples),
    ])  # fmt: skip
    batch = {name: given.pop(name) for name in BATCH_OPTIONS}
    is_batch = check_batch_options(batch)
    options = _Options(**given)
    options.check(is_batch=is_batch)
    if is_batch:
        code = run_batch(
            settings, model, sources, batch, options.of_batch(), overwrite=options.overwrite
        )
        click.get_current_context().exit(code)
    _run_once(settings, model, sources, options, has_examples=bool(input_examples))


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of the command, except those of inputs and of a batch run."""

    fetches: tuple[str, ...]
    isolate: bool
    limit: tuple[str, ...]
    tags: str | None
    signature: str | None
    device: str | None
    executor: str | None
    forbid: tuple[str, ...]
    allow: tuple[str, ...]
    trust: bool
    timeout: float | None
    queue_runners: bool
    top: int | None
    labels: str | None
    resize: bool
    pixels: str | None
    outdir: str | None
    overwrite: bool
    trace: str | None
    trace_steps: int | None
    node_times: bool

    def check(self, *, is_batch: bool) -> None:
        """Check that no option is given without the one that it belongs to.

        Raises:
            click.UsageError: one would have no effect.
        """
        if is_batch:
            refuse_with_each(top=self.top, labels=self.labels, outdir=self.outdir, trace=self.trace)
        if self.isolate and (is_batch or self.queue_runners):
            option = "--each" if is_batch else "--queue-runners"
            raise click.UsageError(f"{option} cannot be combined with --isolate")
        if self.isolate and self.device is not None:
            raise click.UsageError("--device cannot be combined with --isolate, which uses the CPU")
        if self.limit and not self.isolate:
            raise click.UsageError("--limit is for isolated models; add --isolate")
        if self.trace is None and (self.node_times or self.trace_steps is not None):
            option = "--node-times" if self.node_times else "--trace-steps"
            raise click.UsageError(f"{option} needs --trace FILE, which the times are written to")
        if self.labels is not None and self.top is None:
            raise click.UsageError("--labels needs --top N, the number of values that get a label")
        if self.overwrite and self.outdir is None and not is_batch:
            raise click.UsageError("--overwrite needs --outdir FOLDER, or --each with --out FILE")

    def of_batch(self) -> dict[str, Any]:
        """Return the settings of `graphmill.batch.run` that are named after options."""
        names = ("tags", "signature", "fetches", "device", "executor", "forbid", "allow", "trust")
        values = {name: getattr(self, name) for name in (*names, "timeout", "queue_runners")}
        return {**values, "resize": self.resize, "pixels": self.pixels or ""}


def _run_once(
    settings: Settings,
    model: str,
    sources: Mapping[str, Source],
    options: _Options,
    *,
    has_examples: bool,
) -> None:
    """Run a model on one set of inputs, and print or write its outputs."""
    from graphmill.cli.output.results import output_blocks, read_labels, top_entries
    from graphmill.inputs.image_input import ImageOptions

    names = read_labels(options.labels) if options.labels is not None else None
    loaded = _load(settings, model, options)
    with loaded.session:
        targets = _targets(loaded.outputs, options.outdir, overwrite=options.overwrite)
        notes: list[str] = []
        images = ImageOptions(options.resize, options.pixels or "", on_note=notes.append)
        values = loaded.read(sources, images)
        for note in () if settings.as_json else notes:
            say(f"graphmill: {note}", err=True)
        with _example_advice(is_on=has_examples):
            results, timeline = _run(loaded, values, options)
    _write(results, targets)
    largest = {} if options.top is None else top_entries(results, options.top, names)
    data = {"model": model, "outputs": results}
    if options.top is not None:
        data["top"] = largest
    if notes:
        data["notes"] = notes
    trace = options.trace
    save = None if timeline is None or trace is None else partial(timeline.save, trace)
    _emit_and_save(data, output_blocks(results, largest), save, as_json=settings.as_json)


def _load(settings: Settings, model: str, options: _Options) -> RunnableModel:
    """Load the model: in this process, or in one of its own."""
    from graphmill.models.placement import session_placement

    with stage(f"loading {model}"):
        load = _loader(options)
        host, config = session_placement(
            settings.the_host(),
            options.device,
            options.executor,
            options.forbid,
            options.allow,
            trust=options.trust,
        )
        config.graphmill.jit_node_times = options.node_times
        loaded: RunnableModel = load(
            model,
            host,
            tags=options.tags,
            signature=options.signature,
            fetches=options.fetches,
            config=config,
        )
        return loaded


def _run(
    loaded: RunnableModel, values: dict[str, np.ndarray[Any, Any]], options: _Options
) -> tuple[dict[str, Any], Timeline | None]:
    """Run the steps, and return the results of the last one, and the trace if there is one."""
    from graphmill.models.queue_runners import queue_runners_running

    with (
        stage("running", loaded.session.waits),
        queue_runners_running(loaded, is_on=options.queue_runners),
    ):
        if options.trace is None:
            return loaded.run(values, options.timeout), None
        return _run_traced(loaded, values, options.timeout, options.trace_steps or 1)


def _emit_and_save(
    data: dict[str, Any],
    blocks: Iterable[Block],
    save: Callable[[], None] | None,
    *,
    as_json: bool,
) -> None:
    """Write the results and the trace, if there is one.

    Text comes before the trace, so that a full disk does not cost the outputs; JSON after it, so
    that its failure is the only document.
    """
    if save is not None and as_json:
        save()
    emit(data, blocks, as_json=as_json)
    if save is not None and not as_json:
        save()


@contextmanager
def _example_advice(*, is_on: bool) -> Iterator[None]:
    """Add a note to a run's error that says how the types of features are chosen."""
    try:
        yield
    except InvalidArgumentError as error:
        if is_on:
            error.add_note("try: 22.0 for a float feature; 22 is an int64 in --input_examples")
        raise


def _loader(options: _Options) -> Callable[..., RunnableModel]:
    """Return the function that loads the model."""
    if not options.isolate:
        from graphmill.models.loaded_model import load_model

        return load_model
    from graphmill.isolation.limits import IsolationLimits
    from graphmill.models.isolated_model import load_isolated_model

    return partial(load_isolated_model, limits=IsolationLimits.parse(options.limit))


def _run_traced(
    loaded: RunnableModel,
    values: dict[str, np.ndarray[Any, Any]],
    timeout: float | None,
    steps: int,
) -> tuple[dict[str, Any], Timeline]:
    """Run steps, and return the results of the last one and the trace of all."""
    from graphmill.models.loaded_model import LoadedModel
    from graphmill.timeline import StepTrace, Timeline

    timeline = Timeline()
    results: dict[str, Any] = {}
    for _ in range(steps):
        trace = StepTrace()
        results = loaded.run(values, timeout, trace)
        timeline.add_step(trace)
    if isinstance(loaded, LoadedModel):
        timeline.add_compilations(loaded.session)
    return results, timeline


def _targets(names: Iterable[str], outdir: str | None, *, overwrite: bool) -> dict[str, Path]:
    """Return the file for each output; raise before the run if one cannot be written as it is."""
    if outdir is None:
        return {}
    from graphmill.cli.output.results import output_file_name

    if Path(outdir).is_file():
        raise InvalidArgumentError(f"{outdir} is a file; --outdir needs a folder")
    targets = {name: Path(outdir) / output_file_name(name) for name in names}
    used: dict[str, str] = {}
    for name, path in targets.items():
        if used.setdefault(path.name.casefold(), name) != name:
            raise InvalidArgumentError(
                f"the outputs {used[path.name.casefold()]!r} and {name!r} would be written to the "
                f"same file, {path}; choose one of them with --fetch"
            )
        if os.path.lexists(path) and not overwrite:
            error = AlreadyExistsError(f"{path} exists already")
            error.add_note("try: --overwrite, or another --outdir")
            raise error
    return targets


def _write(results: dict[str, Any], targets: dict[str, Path]) -> None:
    import numpy as np

    from graphmill import files
    from graphmill.batch.output.byte_stream import ByteStream

    for name, path in targets.items():
        array = np.asarray(results[name])
        if array.dtype == object:
            array = array.astype(bytes)  # fixed width: NumPy would pickle an array of objects
        with files.open_writer(str(path)) as writer:
            np.lib.format.write_array(ByteStream(writer), array, allow_pickle=False)
