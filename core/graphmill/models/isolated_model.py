"""Load a model for a command in a process of its own, see `graphmill.isolation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.isolation.isolated_session import IsolatedSession
from graphmill.isolation.served_model import GRAPH_SIGNATURE
from graphmill.models.loaded_model import RunnableModel, dense_ports, split_tags, tensors_of
from graphmill.models.summary import choose_signature, signatures_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.isolation.limits import IsolationLimits
    from graphmill.models.summary import Port, Signature
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto


def load_isolated_model(
    model: str,
    host: Host,  # noqa: ARG001 - so that it is called as `load_model` is
    *,
    tags: str | None,
    signature: str | None,
    fetches: Sequence[str],
    config: ConfigProto,
    limits: IsolationLimits,
) -> RunnableModel:
    """Load a model in a process of its own and return it ready to run.

    Args:
        host: unused: the process creates a host of its own.
        limits: what the process may use.
        model, tags, signature, fetches, config: as for `load_model`.

    Raises:
        OpError: the model cannot be isolated or loaded, or has no such tags or signature.
    """
    session = IsolatedSession(model, split_tags(tags), config, limits=limits)
    try:
        signatures = signatures_of(session.meta_graph.signature_def)
        graph = signatures.pop(GRAPH_SIGNATURE, None)
        if signature is not None or (signatures and not fetches) or not (graph or fetches):
            chosen = choose_signature(signatures, signature, model)
            inputs, outputs, is_closed = _ports(chosen), _outputs(chosen), True
        else:
            every = [graph] if graph else list(signatures.values())
            inputs = {name: port for one in every for name, port in _ports(one).items()}
            outputs = tensors_of(fetches) if fetches or not graph else _outputs(graph)
            is_closed = False
    except BaseException:
        session.close()
        raise
    return RunnableModel(model, session, inputs, outputs, is_closed)


def _ports(signature: Signature) -> Mapping[str, Port]:
    return {port.name: port for port in dense_ports(signature.inputs)}


def _outputs(signature: Signature) -> Mapping[str, str]:
    return {port.name: port.tensor for port in dense_ports(signature.outputs)}
