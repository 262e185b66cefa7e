"""`LoadedModel`: a model that is ready to run, with its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.errors import (
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnimplementedError,
    UnknownNameError,
    suggest,
)
from graphmill.models.execution_errors import mark_as_execution
from graphmill.models.graph_sizes import is_placeholder, static_outputs
from graphmill.models.summary import (
    ModelSummary,
    Port,
    choose_signature,
    port_of_tensor,
    signatures_of,
    summarize_graph,
)
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.definition.op_traits import ControlFlow
from graphmill.session.timeouts import timeout_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.explain.step_trace import StepTrace
    from graphmill.graph.formats.model_file import LoadedGraph, ModelFile
    from graphmill.inputs.image_input import ImageOptions
    from graphmill.inputs.source import Source
    from graphmill.isolation import IsolatedSession
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.proto.graph_pb2 import GraphDef
    from graphmill.proto.meta_graph_pb2 import MetaGraphDef
    from graphmill.session.session import Session


@dataclass(frozen=True, slots=True)
class RunnableModel:
    """A session over a model, in this process or another one, with the requested outputs.

    Attributes:
        name: the model as the user named it.
        session: the session; its variables are restored.
        inputs: the inputs that can be fed, by the name that the user gives.
        outputs: the tensor of each output, by the name that the user sees.
        is_closed: whether exactly `inputs` must be fed, as in a signature.
    """

    name: str
    session: Session | IsolatedSession
    inputs: Mapping[str, Port]
    outputs: Mapping[str, str]
    is_closed: bool

    @property
    def ops(self) -> OpRegistry:
        """The definitions of its ops, as far as this process knows them: TensorFlow's."""
        return OpRegistry()

    def ports(self, names: Iterable[str]) -> dict[str, Port]:
        """Return the input for each name; raise if a name is unknown or missing.

        Raises:
            NotFoundError: the model has no such input.
            InvalidArgumentError: an input of the signature is not given.
        """
        ports_by_name = {name: self._port(name) for name in names}
        missing = [name for name in self.inputs if self.is_closed and name not in ports_by_name]
        if missing:
            raise _missing_inputs(missing, self.name, list(self.inputs))
        return ports_by_name

    def named(self, sources: Mapping[str, Source]) -> dict[str, Source]:
        """Return the sources with the name of the only input in place of an empty name.

        Raises:
            InvalidArgumentError: a source has no name, and the model has not exactly one input
                without a default.
        """
        if "" not in sources:
            return dict(sources)
        source = sources[""]
        required = [name for name, port in self.inputs.items() if not port.has_default]
        names = required or list(self.inputs)
        if len(names) != 1 or names[0] in sources:
            raise _unnamed_value(source, self.name, names)
        _check_is_no_file(source, names[0])
        named = {name or names[0]: each for name, each in sources.items()}
        named[names[0]] = replace(source, name=names[0])
        return named

    def read(self, sources: Mapping[str, Source], images: ImageOptions) -> dict[str, Any]:
        """Return the values of inputs by name, read from files and literals.

        Args:
            sources: where to read the value of each input; an empty name stands for the only input.
            images: how images are converted.

        Raises:
            OpError: the model has no such input, or a value cannot be read or does not fit.
        """
        from graphmill.inputs.input_values import load

        sources = self.named(sources)
        return {
            name: load(sources[name], port.spec(), images)
            for name, port in self.ports(sources).items()
        }

    def run(
        self,
        values: Mapping[str, Any],
        timeout: float | None = None,
        trace: StepTrace | None = None,
    ) -> dict[str, Any]:
        """Run a step with the values of inputs by name, and return the outputs by name.

        Args:
            values: the values of the inputs.
            timeout: the seconds that the step may take; None for no limit.
            trace: receives the trace of the step.

        Raises:
            UnknownNameError: the graph has no such tensor.
            InvalidArgumentError: an input has no value; a note says how to give it one.
            OpError: the run failed; the error is marked as one of execution.
        """
        feeds = {port.tensor: values[name] for name, port in self.ports(values).items()}
        names = list(self.outputs)
        try:
            fetches = [self.outputs[name] for name in names]
            options = timeout_options(timeout)
            results = self.session.run(fetches, feeds, options=options, run_metadata=trace)
        except UnknownNameError:
            raise
        except OpError as error:
            if is_placeholder(error.op_type, self.ops):
                error.add_note(f"try: {error.node}=@FILE, or {error.node}=VALUE")
            else:
                mark_as_execution(error)
            raise
        return dict(zip(names, results, strict=True))

    def _port(self, name: str) -> Port:
        if name in self.inputs:
            return self.inputs[name]
        if self.is_closed:
            raise NotFoundError(
                f"{self.name} has no input {name!r}{suggest(name, self.inputs)}; "
                f"its inputs are {_list(self.inputs) or 'none'}"
            )
        return self._port_of_tensor(name)

    def _port_of_tensor(self, name: str) -> Port:
        """Return any tensor of the graph as an input; nothing else is known about it."""
        return Port(name, name if ":" in name else f"{name}:0", "", None)


@dataclass(frozen=True, slots=True)
class LoadedModel(RunnableModel):
    """A model with its graph and a session in this process.

    Attributes:
        session: the session; its variables are restored.
        graph_def: its graph.
        host: supplies the definitions of its ops.
        meta_graph: the MetaGraph with the graph's collections; None for a bare graph.
    """

    session: Session
    graph_def: GraphDef
    host: Host
    meta_graph: MetaGraphDef | None = None

    @property
    def ops(self) -> OpRegistry:
        """The definitions of its ops: those of the host, plugins' included."""
        return self.host.ops

    def needed_inputs(self) -> dict[str, Port]:
        """Return the inputs of the signature, or those that the outputs depend on.

        Raises:
            NotFoundError: a tensor does not exist; the message names near matches.
        """
        if self.is_closed:
            return dict(self.inputs)
        from graphmill.graph.algorithms import ancestors
        from graphmill.graph.node import find_tensor

        graph = self.session.graph
        needed = ancestors([find_tensor(graph, name, "fetch")[0] for name in self.outputs.values()])
        return {
            name: port
            for name, port in self.inputs.items()
            if find_tensor(graph, port.tensor, "feed")[0] in needed
        }

    def _port_of_tensor(self, name: str) -> Port:
        return port_of_tensor(self.graph_def, self.ops, name)


def load_model(
    model: str,
    host: Host,
    *,
    tags: str | None,
    signature: str | None,
    fetches: Sequence[str],
    config: ConfigProto | None = None,
) -> LoadedModel:
    """Load a model and return it ready to run.

    Args:
        model: the path of a SavedModel, GraphDef or MetaGraph.
        host: the host to run it on.
        config: the configuration of its session.
        tags: the tags of a SavedModel's MetaGraph, separated by commas.
        signature: the signature's key; None for the default.
        fetches: tensors to fetch instead of a signature's outputs.

    Raises:
        OpError: it is not a model, or has no such tags, signature or tensor.
    """
    from graphmill.graph.formats.model_file import open_model
    from graphmill.graph.formats.model_format import Kind

    opened = open_model(model)
    if opened.kind is Kind.SAVED_MODEL:
        opened.close()
        return _saved_model(model, host, config, tags=tags, key=signature, fetches=fetches)
    if tags is not None:
        raise InvalidArgumentError(f"{model} is a {opened.kind.value}, which has no tags to choose")
    return _graph(opened, model, host, config, key=signature, fetches=fetches)


def _saved_model(
    model: str,
    host: Host,
    config: ConfigProto | None,
    *,
    tags: str | None,
    key: str | None,
    fetches: Sequence[str],
) -> LoadedModel:
    from graphmill import saved_model

    loaded = saved_model.load(model, tags=split_tags(tags), config=config, host=host)
    signatures = signatures_of(loaded.meta_graph.signature_def)
    if fetches:
        inputs = {
            port.name: port for one in signatures.values() for port in dense_ports(one.inputs)
        }
        outputs, is_closed = tensors_of(fetches), False
    else:
        chosen = choose_signature(signatures, key, model)
        inputs = {port.name: port for port in dense_ports(chosen.inputs)}
        outputs = {port.name: port.tensor for port in dense_ports(chosen.outputs)}
        is_closed = True
    session, meta_graph = loaded.session, loaded.meta_graph
    return LoadedModel(
        model, session, inputs, outputs, is_closed, meta_graph.graph_def, host, meta_graph
    )


def _graph(
    opened: ModelFile,
    model: str,
    host: Host,
    config: ConfigProto | None,
    *,
    key: str | None,
    fetches: Sequence[str],
) -> LoadedModel:
    """Return a GraphDef or MetaGraphDef ready to run; a MetaGraph's checkpoint is restored."""
    from graphmill.graph.formats.model_format import Kind
    from graphmill.saved.meta_graph_checkpoint import restore_checkpoint_beside
    from graphmill.session.session import Session

    meta_graph = opened.meta_graph() if opened.kind is Kind.META_GRAPH_DEF else None
    graph = opened.graph() if meta_graph is None else meta_graph.graph
    signatures = signatures_of(meta_graph.meta_graph_def.signature_def) if meta_graph else {}
    if key is not None or (signatures and not fetches):
        chosen = choose_signature(signatures, key, model)
        inputs, outputs = dense_ports(chosen.inputs), dense_ports(chosen.outputs)
    else:
        summary = summarize_graph(graph, host.ops)
        inputs, outputs = list(summary.inputs), list(_fetchable(summary, graph, host))
    session = Session(graph=model, config=config, host=host)
    if meta_graph is not None:
        restore_checkpoint_beside(session, model, meta_graph.meta_graph_def.saver_def)
    return LoadedModel(
        name=model,
        session=session,
        inputs={port.name: port for port in inputs},
        outputs=tensors_of(fetches) if fetches else {port.name: port.tensor for port in outputs},
        is_closed=bool(signatures) and not fetches,
        graph_def=graph.graph_def,
        host=host,
        meta_graph=None if meta_graph is None else meta_graph.meta_graph_def,
    )


def _fetchable(summary: ModelSummary, graph: LoadedGraph, host: Host) -> Iterable[Port]:
    """Return the outputs of a graph outside of its loops; tensors in loops cannot be fetched."""
    definitions = map(host.ops.find, summary.ops)
    if not any(one and one.traits.control_flow is ControlFlow.ENTER for one in definitions):
        return summary.outputs
    return static_outputs(summary.outputs, graph, host.ops)


def dense_ports(ports: Iterable[Port]) -> list[Port]:
    """Return the ports; raise if one is not a dense tensor."""
    dense = list(ports)
    for port in dense:
        if not port.tensor:
            error = UnimplementedError(f"{port.name!r} is a sparse or composite tensor")
            error.add_note("try: --fetch NAME:0, with the names of its components")
            raise error
    return dense


def tensors_of(fetches: Sequence[str]) -> dict[str, str]:
    """Return the tensor for each fetch: `x` is the first output of node `x`."""
    return {name: name if ":" in name else f"{name}:0" for name in fetches}


def split_tags(tags: str | None) -> list[str] | None:
    """Return the tags that the user wrote with commas."""
    return None if tags is None else [tag for tag in tags.split(",") if tag]


def _missing_inputs(missing: list[str], model: str, inputs: list[str]) -> InvalidArgumentError:
    """Return the error for a run that does not give all inputs of a signature."""
    noun = "a value for its input" if len(missing) == 1 else "values for its inputs"
    others = "" if len(missing) == len(inputs) else f"; it takes {_list(inputs)}"
    error = InvalidArgumentError(f"{model} needs {noun} {_list(missing)}{others}")
    name = "" if len(inputs) == 1 else f"{missing[0]}="
    error.add_note(f"try: {name}@FILE, or {name}VALUE")
    return error


def _unnamed_value(source: Source, model: str, names: Sequence[str]) -> InvalidArgumentError:
    """Return the error for a value without the name of its input."""
    value = f"@{source}" if source.kind == "file" else str(source)
    error = InvalidArgumentError(
        f"{value!r} does not name an input; {model} has the inputs {_list(names) or 'none'}"
    )
    if names:
        error.add_note(f"try: {names[0]}={value}")
    return error


def _check_is_no_file(source: Source, name: str) -> None:
    """Raise if a value without a name is the path of a file: its @ was forgotten."""
    if source.kind == "literal" and Path(source.text).is_file():
        error = InvalidArgumentError(f"{source.text!r} is a file, not a value of input {name!r}")
        error.add_note(f"try: @{source.text}, to feed the contents of the file")
        raise error


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
