"""Convert the graph of a session or a model by the exporter for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import files
from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.export.export_graph import export_graph
from graphmill.graph.node import output_name

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphmill.graph.tensor import Tensor
    from graphmill.models.loaded_model import LoadedModel
    from graphmill.plugin.host import Host
    from graphmill.proto import ConfigProto
    from graphmill.session.session import Session


def convert(
    session: Session,
    target: str,
    inputs: Mapping[str, str | Tensor],
    outputs: Mapping[str, str | Tensor],
    **options: Any,
) -> Any:
    """Convert the part of a session's graph that computes some outputs.

        x = F.placeholder("float32", [3], name="x")
        double = graphmill.export.convert(session, "saved_model", {"x": x}, {"y": x * 2.0})
        double.save("double")
        with graphmill.saved_model.load("double") as model:
            print(model.signatures["serving_default"](x=[1.0, 2.0, 3.0])["y"])  # [2. 4. 6.]

    Args:
        session: the session, whose variables have values.
        target: the name of an exporter: `jax`, `stablehlo`, `onnx`, `saved_model`, or one of a
            plugin.
        inputs: the tensors to feed, by the names that callers of the result use.
        outputs: the tensors to compute, likewise.
        options: the exporter's options.

    Returns:
        What the exporter makes: for `jax` a function.

    Raises:
        NotFoundError: there is no such exporter, or no such tensor.
        UnimplementedError: the target cannot hold the graph; the message lists all nodes and why.
    """
    exporter: Any = session.host.exporters.get(target)
    graph = export_graph(session, _names(inputs), _names(outputs))
    return exporter(graph, **options)


def convert_model(
    model: str | os.PathLike[str],
    target: str,
    *,
    signature: str | None = None,
    tags: str | None = None,
    fetches: Sequence[str] = (),
    inputs: Sequence[str] = (),
    host: Host | None = None,
    config: ConfigProto | None = None,
    **options: Any,
) -> Any:
    """Convert a SavedModel, GraphDef or MetaGraph file; see `convert`.

    Args:
        model: the path of the model.
        target: the name of an exporter.
        signature, tags, fetches: as for `graphmill run`.
        inputs: inputs that have a default but are to be inputs of the result nevertheless. The
            others keep their default, unless all inputs have one or a signature names them.
        host: where the exporter comes from; by default the installed plugins.
        config: configures the session that loads the model, such as what it may do (`allow`).
        options: the exporter's options.

    Raises:
        OpError: it is not a model, or `convert` fails.
    """
    from graphmill.models.loaded_model import load_model
    from graphmill.plugin.host import default_host

    path = files.as_path(model)
    used = host or default_host()
    loaded = load_model(path, used, tags=tags, signature=signature, fetches=fetches, config=config)
    with loaded.session:
        if not loaded.outputs:
            raise InvalidArgumentError(f"{path} has no outputs; name tensors with fetches")
        return convert(
            loaded.session, target, inputs_of_model(loaded, inputs), loaded.outputs, **options
        )


def inputs_of_model(loaded: LoadedModel, chosen: Sequence[str] = ()) -> dict[str, str]:
    """Return the tensors to feed by the names of inputs: those of the signature, if there is one.

    Else these are the inputs that the outputs depend on. Those with a default are left out, unless
    all have one.

    Args:
        loaded: the model.
        chosen: inputs that are not left out.

    Raises:
        NotFoundError: a tensor or chosen input does not exist; the message names near matches.
        InvalidArgumentError: no output depends on a chosen input.
    """
    check_inputs(loaded.name, chosen, loaded.inputs)
    inputs = loaded.needed_inputs()
    unused = [name for name in chosen if name not in inputs]
    if unused:
        raise InvalidArgumentError(
            f"input {unused[0]!r} cannot be an input of the result: no output depends on it"
        )
    if not loaded.is_closed and not all(port.has_default for port in inputs.values()):
        inputs = {n: port for n, port in inputs.items() if n in chosen or not port.has_default}
    return {name: port.tensor for name, port in inputs.items()}


def check_inputs(model: str, chosen: Iterable[str], inputs: Collection[str]) -> None:
    """Refuse names that are not those of inputs.

    Args:
        model: the name of the model, for the error.
        chosen: the names.
        inputs: those of the model's inputs.

    Raises:
        NotFoundError: one is unknown; the message names near matches.
    """
    for name in chosen:
        if name not in inputs:
            raise NotFoundError(
                f"{model} has no input {name!r}{suggest(name, inputs)}; its inputs are "
                f"{', '.join(map(repr, inputs)) or 'none'}"
            )


def _names(tensors: Mapping[str, str | Tensor]) -> dict[str, str]:
    return {
        key: item if isinstance(item, str) else output_name(item) for key, item in tensors.items()
    }
