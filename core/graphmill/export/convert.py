"""Convert the graph of a session or a model by the exporter for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import files
from graphmill.errors import InvalidArgumentError
from graphmill.export.export_graph import export_graph
from graphmill.graph.algorithms import ancestors
from graphmill.graph.node import find_tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.tensor import Tensor
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
    host: Host | None = None,
    config: ConfigProto | None = None,
    **options: Any,
) -> Any:
    """Convert a SavedModel, GraphDef or MetaGraph file; see `convert`.

    Args:
        model: the path of the model.
        target: the name of an exporter.
        signature, tags, fetches: as for `graphmill run`.
        host: where the exporter comes from; by default the installed plugins.
        config: configures the session that loads the model, such as what it may do (`allow`).
        options: the exporter's options.

    Raises:
        OpError: it is not a model, or `convert` fails.
    """
    from graphmill.cli.model.loaded_model import load_model
    from graphmill.plugin.host import default_host

    path = files.as_path(model)
    used = host or default_host()
    loaded = load_model(path, used, tags=tags, signature=signature, fetches=fetches, config=config)
    with loaded.session:
        if not loaded.outputs:
            raise InvalidArgumentError(f"{path} has no outputs; name tensors with fetches")
        inputs = {name: port.tensor for name, port in loaded.inputs.items()}
        if not loaded.is_closed:
            inputs = needed_inputs(loaded.session.graph, inputs, loaded.outputs.values())
        return convert(loaded.session, target, inputs, loaded.outputs, **options)


def needed_inputs(
    graph: Graph, inputs: Mapping[str, str], outputs: Iterable[str]
) -> dict[str, str]:
    """Return the inputs that some outputs depend on; all are tensors by the names of inputs.

    Raises:
        NotFoundError: a tensor does not exist; the message names near matches.
    """
    needed = ancestors([find_tensor(graph, name, "fetch")[0] for name in outputs])
    return {
        name: tensor
        for name, tensor in inputs.items()
        if find_tensor(graph, tensor, "feed")[0] in needed
    }


def _names(tensors: Mapping[str, str | Tensor]) -> dict[str, str]:
    return {key: item if isinstance(item, str) else item.name for key, item in tensors.items()}
