"""`graphmill compare`: run a model in two ways, and find the first node that differs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from graphmill.cli.completion import complete_model_or_input
from graphmill.cli.options import (
    Settings,
    allow_option,
    common_options,
    dir_option,
    pass_settings,
    pixels_option,
    queue_runners_option,
    signature_option,
    step_timeout_option,
    tags_option,
    take_model,
    trust_option,
)
from graphmill.cli.output.formatting import Block, Table, emit
from graphmill.cli.output.progress import stage
from graphmill.errors import InvalidArgumentError, NotFoundError, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.comparison import Comparison, TensorDifference, Tolerance
    from graphmill.debug.recording import Recording
    from graphmill.models.loaded_model import LoadedModel

_DIFFERENT: Final = 1
_MAX_VALUE: Final = 40  # characters of a value in the table
_FLOAT64: Final = "float64"
_EVERY_TENSOR: Final = "--every-tensor"
_KEYS: Final = ("jit", "device", "executor", "model", "reference", "recording", _FLOAT64)
_MODES: Final = ("off", "tiered", "eager")


class _Side(NamedTuple):
    """The settings of one side of the comparison."""

    jit: str = ""
    device: str | None = None
    executor: str | None = None
    model: str = ""
    reference: str = ""
    recording: str = ""
    float64: bool = False

    @classmethod
    def parse(cls, option: str, text: str) -> _Side:
        """Read settings such as `jit=off,device=CPU`.

        Raises:
            click.UsageError: a setting is unknown or malformed.
        """
        values: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = part.partition("=")
            if key not in _KEYS:
                raise click.UsageError(
                    f"{option}: there is no setting {key!r}, only {', '.join(_KEYS)}"
                    f"{suggest(key, _KEYS)}"
                )
            if bool(equals and value) == (key == _FLOAT64):
                form = key if key == _FLOAT64 else f"{key}=VALUE"
                raise click.UsageError(f"{option}: {part!r} is malformed; write {form}")
            values[key] = value or True
        if values.get("jit", "off") not in _MODES:
            raise click.UsageError(
                f"{option}: jit is {values['jit']!r}, expected off, tiered, eager"
            )
        return cls(**values)


class _Limits(NamedTuple):
    """The differences that are accepted, and the seconds that a step may take."""

    tolerance: Tolerance
    timeout: float | None


class _Access(NamedTuple):
    """The access rules of the models."""

    allow: tuple[str, ...]
    trust: bool


@click.command()
@click.argument(
    "arguments",
    nargs=-1,
    metavar="MODEL [NAME=@FILE | NAME=VALUE]...",
    shell_complete=complete_model_or_input,
)
@click.option(
    "--a",
    "first",
    default="jit=off",
    show_default=True,
    help="Settings of the first run: jit=, device=, executor=, model=.",
)
@click.option(
    "--b",
    "second",
    default="jit=eager",
    show_default=True,
    help="Settings of the second run, as for --a; or reference=FOLDER, recording=FILE, or float64.",
)
@click.option("--fetch", "fetches", multiple=True, help="Compare this tensor instead, such as x:0.")
@click.option("--rtol", type=float, default=1e-5, show_default=True, help="Relative tolerance.")
@click.option("--atol", type=float, default=1e-6, show_default=True, help="Absolute tolerance.")
@click.option("--ulps", type=float, default=0.0, help="Accept N units in the last place.")
@click.option(_EVERY_TENSOR, is_flag=True, help="Compare all tensors even if the outputs agree.")
@allow_option
@trust_option
@dir_option
@tags_option
@signature_option
@pixels_option
@queue_runners_option
@step_timeout_option
@common_options
@pass_settings
@click.pass_context
def compare(
    context: click.Context,
    settings: Settings,
    *,
    arguments: tuple[str, ...],
    first: str,
    second: str,
    fetches: tuple[str, ...],
    rtol: float,
    atol: float,
    ulps: float,
    every_tensor: bool,
    allow: tuple[str, ...],
    trust: bool,
    folder: str | None,
    tags: str | None,
    signature: str | None,
    pixels: str | None,
    queue_runners: bool,
    timeout: float | None,
) -> None:
    """Run MODEL in two ways on the same inputs, and show where the values differ.

    Inputs are given as for `graphmill run`. If an output differs, all tensors on the way to it are
    compared: the first one that differs is shown with the path to the output, then the ten with the
    largest differences. The exit code is 1 if an output differs by more than the tolerance.

    For example: graphmill compare MODEL image=@seven.png --a jit=off --b jit=eager
    """
    from graphmill.comparison import Tolerance
    from graphmill.models.queue_runners import queue_runners_running

    model, inputs = take_model(arguments, folder)
    a, b = _Side.parse("--a", first), _Side.parse("--b", second)
    if a.reference or a.recording or a.float64:
        raise click.UsageError(
            "--a runs the model; reference=, recording= and float64 are only valid for --b."
        )
    if every_tensor and (b.reference or b.recording or b.float64):
        raise click.UsageError(
            f"{_EVERY_TENSOR} is for two runs; --b {second} determines what is compared."
        )
    recording = None
    if b.recording:
        if inputs or fetches or pixels:
            raise click.UsageError("recording= has inputs and fetches; pass none, and no --pixels.")
        from graphmill.debug.recording_file import load as load_recording

        recording = load_recording(b.recording)
        fetches = recording.fetches
    limits = _Limits(Tolerance(rtol, atol, ulps), timeout)

    def load(side: _Side) -> LoadedModel:
        rules = _Access(allow, trust)
        return _load(settings, side, model, rules, tags=tags, signature=signature, fetches=fetches)

    left = load(a)
    with left.session, queue_runners_running(left, is_on=queue_runners):
        values = {} if recording is not None else _values(left, inputs, pixels)
        if recording is not None:
            comparison = _compare_recording(left, recording, limits)
        elif b.float64:
            comparison = _compare_float64(left, values, limits)
        elif b.reference:
            comparison = _compare_reference(left, values, Path(b.reference), limits)
        else:
            right = load(b)
            with right.session, queue_runners_running(right, is_on=queue_runners):
                comparison = _compare_models(left, right, values, limits, every_tensor=every_tensor)
    data = {"model": model, "a": first, "b": second, **comparison.as_dict()}
    emit(data, _blocks(comparison), as_json=settings.as_json)
    if not comparison.agrees:
        context.exit(_DIFFERENT)


def _load(
    settings: Settings,
    side: _Side,
    model: str,
    access: _Access,
    *,
    tags: str | None,
    signature: str | None,
    fetches: tuple[str, ...],
) -> LoadedModel:
    from graphmill.models.loaded_model import load_model
    from graphmill.models.placement import session_placement

    path = side.model or model
    with stage(f"loading {path}"):
        host, config = session_placement(
            settings.the_host(),
            side.device,
            side.executor,
            allow=access.allow,
            trust=access.trust,
        )
        config.graphmill.jit = side.jit
        return load_model(
            path, host, tags=tags, signature=signature, fetches=fetches, config=config
        )


def _values(loaded: LoadedModel, inputs: tuple[str, ...], pixels: str | None) -> dict[str, Any]:
    """Return the values that are fed, by tensor name."""
    from graphmill.cli import input_args
    from graphmill.cli.image_options import image_options

    sources = input_args.unique(input_args.parse_short(inputs))
    values = loaded.read(sources, image_options(pixels))
    ports = loaded.ports(values)
    return {ports[name].tensor: value for name, value in values.items()}


def _compare_models(
    left: LoadedModel,
    right: LoadedModel,
    values: Mapping[str, Any],
    limits: _Limits,
    *,
    every_tensor: bool,
) -> Comparison:
    from graphmill.comparison import compare_sessions

    names = list(left.outputs.values())
    if names != list(right.outputs.values()):
        raise InvalidArgumentError(
            f"the models have different outputs: {', '.join(names)} and "
            f"{', '.join(right.outputs.values())}; choose tensors that both have with --fetch"
        )
    with stage("comparing", left.session.waits):
        return compare_sessions(
            left.session,
            right.session,
            names,
            values,
            **limits._asdict(),
            every_tensor=every_tensor,
        )


def _compare_float64(loaded: LoadedModel, values: Mapping[str, Any], limits: _Limits) -> Comparison:
    from graphmill.comparison import compare_with_float64

    with stage("comparing", loaded.session.waits):
        return compare_with_float64(
            loaded.session, list(loaded.outputs.values()), values, **limits._asdict()
        )


def _compare_recording(loaded: LoadedModel, recording: Recording, limits: _Limits) -> Comparison:
    from graphmill.comparison import compare_with_recording

    with stage("comparing", loaded.session.waits):
        return compare_with_recording(loaded.session, recording, **limits._asdict())


def _compare_reference(
    loaded: LoadedModel, values: Mapping[str, Any], folder: Path, limits: _Limits
) -> Comparison:
    """Compare the outputs that have a file, as `graphmill run --outdir` writes them."""
    import numpy as np

    from graphmill.cli.output.results import output_file_name
    from graphmill.comparison import compare_with_values
    from graphmill.files.damaged_zip import DAMAGED_ARRAY

    references = {}
    for name, tensor in loaded.outputs.items():
        path = folder / output_file_name(name)
        if not path.exists():
            continue
        try:
            references[tensor] = np.load(path, allow_pickle=False)
        except DAMAGED_ARRAY as error:
            raise InvalidArgumentError(f"{path} is not a .npy file: {error}") from error
    if not references:
        expected = ", ".join(output_file_name(name) for name in loaded.outputs)
        raise NotFoundError(f"{folder} has no values of the outputs; expected a file {expected}")
    with stage("comparing", loaded.session.waits):
        return compare_with_values(loaded.session, references, values, **limits._asdict())


def _blocks(comparison: Comparison) -> list[Block]:
    blocks: list[Block] = []
    if comparison.outputs:
        blocks.append(_table("", comparison.outputs))
    if comparison.first is not None:
        blocks.append(f"first difference: {comparison.first}")
        if len(comparison.path) > 1:
            blocks.append("path: " + " -> ".join(comparison.path))
    if comparison.worst:
        blocks.append(_table("largest differences", comparison.worst))
    counts = (
        f"{comparison.num_compared} intermediate tensors compared, {len(comparison.skipped)} not"
    )
    blocks += [counts] if comparison.num_compared else []
    return [*blocks, *comparison.notes, _verdict(comparison)]


def _verdict(comparison: Comparison) -> str:
    if not comparison.outputs:  # nodes were compared one by one
        return "the nodes agree" if comparison.agrees else "some nodes differ"
    if not comparison.agrees:
        return "the outputs differ"
    if comparison.first is not None:
        return f"the outputs agree, although '{comparison.first.tensor}' on the way to them differs"
    if comparison.num_compared:
        return "the outputs and all compared tensors agree"
    return f"the outputs agree; {_EVERY_TENSOR} compares the tensors on the way to them, too"


def _table(title: str, differences: tuple[TensorDifference, ...]) -> Table:
    table = Table(("tensor", "op", "outside", "ulps", "absolute", "at", "a", "b"), title=title)
    for difference in differences:
        if difference.reason:
            table.rows.append(
                (difference.tensor, difference.op or "-", difference.reason, *"-----")
            )
            continue
        position = ",".join(map(str, difference.index)) or "-"
        table.rows.append(
            (
                *(
                    difference.tensor,
                    difference.op or "-",
                    f"{difference.num_outside} of {difference.size}",
                ),
                *(f"{difference.max_ulps:.3g}", f"{difference.max_abs:.3g}"),
                *(position, _shortened(difference.a, difference.b) or "-"),
                _shortened(difference.b, difference.a) or "-",
            )
        )
    return table


def _shortened(text: str, other: str) -> str:
    """Return the part of a long text around the place where it begins to differ from another."""
    if len(text) <= _MAX_VALUE:
        return text
    pairs = enumerate(zip(text, other, strict=False))
    differs_at = next((index for index, (one, another) in pairs if one != another), 0)
    start = max(0, min(differs_at - _MAX_VALUE // 2, len(text) - _MAX_VALUE))
    end = start + _MAX_VALUE
    return f"{'…' * (start > 0)}{text[start:end]}{'…' * (end < len(text))}"
