"""Load SavedModels of TensorFlow 1 and 2: graph, variables, assets, initializer.

Semantics: tensorflow/cc/saved_model/loader.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

from graphmill import errors, files, proto
from graphmill.access.policy_config import with_access
from graphmill.deprecations import renamed_arguments
from graphmill.graph.algorithms import ancestors
from graphmill.graph.formats.model_file import open_model
from graphmill.graph.formats.model_format import Kind
from graphmill.graph.functions.function_calls import called_functions
from graphmill.ops.definition.op_traits import Source
from graphmill.saved.assets import asset_feeds
from graphmill.saved.internal_signatures import INIT_COLLECTIONS, INIT_SIGNATURE
from graphmill.saved.signature import Signatures
from graphmill.session.options import as_message
from graphmill.session.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from graphmill.graph.formats.model_file import LoadedMetaGraph, ModelFile
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.isolation import IsolatedSavedModel, IsolationLimits
    from graphmill.plugin.host import Host
    from graphmill.proto.meta_graph_pb2 import MetaGraphDef

_SERVE = frozenset({"serve"})
VARIABLES = ("variables", "variables")


class SavedModel:
    """A loaded SavedModel, with restored variables, after its initializer has run.

        with graphmill.saved_model.load("digits") as model:
            answer = model.signatures["serving_default"](image=np.zeros([1, 8, 8, 1]))
        print(sorted(answer))  # ['classes', 'probabilities']

    Attributes:
        path: the model's folder.
        tags: the tags of the loaded meta graph.
        meta_graph: the `MetaGraphDef`; its graph lacks the contents of large constants.
        session: the session that holds the graph and the variables.
        signatures: the signatures by name, each callable with arrays by input name.
    """

    def __init__(self, path: str, model: ModelFile, loaded: LoadedMetaGraph, session: Session):
        self.path = path
        self.tags = loaded.tags
        self.meta_graph: MetaGraphDef = loaded.meta_graph_def
        self.session = session
        self.signatures = Signatures(self.meta_graph.signature_def, session)
        self._model = model

    def close(self) -> None:
        """Close the session and release the files; safe to call twice."""
        self.session.close()
        self._model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SavedModel({self.path!r}, tags={sorted(self.tags)}, {self.signatures})"


@overload
def load(
    export_dir: str | os.PathLike[str],
    tags: str | Iterable[str] | None = None,
    config: Any = None,
    host: Host | None = None,
    *,
    allow: Iterable[str] | None = None,
    trust: bool | None = None,
    isolate: Literal[False] = False,
    limits: None = None,
) -> SavedModel: ...


@overload
def load(
    export_dir: str | os.PathLike[str],
    tags: str | Iterable[str] | None = None,
    config: Any = None,
    host: None = None,
    *,
    allow: Iterable[str] | None = None,
    trust: bool | None = None,
    isolate: Literal[True],
    limits: IsolationLimits | None = None,
) -> IsolatedSavedModel: ...


@renamed_arguments(path="export_dir")
def load(
    export_dir: str | os.PathLike[str],
    tags: str | Iterable[str] | None = None,
    config: Any = None,
    host: Host | None = None,
    *,
    allow: Iterable[str] | None = None,
    trust: bool | None = None,
    isolate: bool = False,
    limits: IsolationLimits | None = None,
) -> SavedModel | IsolatedSavedModel:
    """Load a SavedModel and return it ready to run.

        with graphmill.saved_model.load("digits") as model:
            classes = model.signatures["serving_default"](image=np.zeros([1, 8, 8, 1]))["classes"]
        print(classes.shape)  # (1,)

    Besides computing, the model may only read the files of its own folder, unless `allow`, `trust`
    or the configuration say otherwise.

    Args:
        export_dir: path or URL of its folder (or of the file `saved_model.pb` in the folder).
        tags: all tags of the meta graph to load. None selects the only meta graph, or else the one
            with the single tag "serve".
        config: a `ConfigProto` for the session; by default only the nodes that a step needs have to
            request devices that exist (`place_pruned_graph`).
        host: supplies ops, kernels and devices; the default host if None.
        allow: what the model may do, as `["fs.read:DATA", "fs.write:OUT"]`; see
            `graphmill.access.rules`.
        trust: True allows everything, False only what `allow` lists.
        isolate: whether to load and run the model in a child process that the operating system
            restricts; see `graphmill.isolation.IsolatedSession`.
        limits: what the isolated process may use, and which protections it needs.

    Raises:
        UnimplementedError: the model cannot be isolated on this system; the message says why.
        NotFoundError: the model does not exist, a data file of its variables is missing, or no
            meta graph has exactly these tags (the message lists the available ones).
        InvalidArgumentError: the file is not a SavedModel, or the graph is invalid.
        DataLossError: the model or its variables are damaged.
        PermissionDeniedError: an asset's path is outside the model's folder, or the initializer
            does what is not allowed; the message says how to allow it.
        OpError: the initializer failed.
    """
    config = _session_config(config)
    if isolate:
        return _load_isolated(
            export_dir, tags, config, host, allow=allow, trust=trust, limits=limits
        )
    if limits is not None:
        raise errors.InvalidArgumentError("limits are for isolated models; add isolate=True")
    model = open_model(export_dir)
    session: Session | None = None
    try:
        if model.kind is not Kind.SAVED_MODEL:
            raise errors.InvalidArgumentError(
                f"{model.path} is a {model.kind.value}, not a SavedModel; run it with "
                "graphmill.Session(graph=path)"
            )
        folder = files.parent(model.path) or "."
        loaded = _choose(model, tags)
        if not loaded.tensors:
            model.close()  # nothing is left to read
        config = with_access(config, allow, trust, is_loaded=True, model_folder=folder)
        session = Session(graph=loaded.graph, config=config, host=host)
        with session.loading_a_model():
            _initialize(session, folder, loaded.meta_graph_def)
        return SavedModel(folder, model, loaded, session)
    except BaseException:
        if session is not None:
            session.close()
        model.close()
        raise


def _session_config(config: Any) -> proto.ConfigProto:
    """Return the configuration of the session for a model."""
    if config is None:
        config = proto.ConfigProto()
        config.graph_options.place_pruned_graph = True
    return as_message(proto.ConfigProto, config, "config")


def _load_isolated(
    path: str | os.PathLike[str],
    tags: str | Iterable[str] | None,
    config: proto.ConfigProto,
    host: Host | None,
    **options: Any,
) -> IsolatedSavedModel:
    """Load a model in a process of its own, which creates its own host."""
    if host is not None:
        raise errors.InvalidArgumentError(
            "host cannot be combined with isolate=True: the isolated process uses the installed "
            "plugins and those that GRAPHMILL_LOAD_PLUGINS names"
        )
    from graphmill.isolation.isolated_saved_model import load_isolated

    text = files.as_path(path)
    return load_isolated(text, tags, config, **options)


def _choose(model: ModelFile, tags: str | Iterable[str] | None) -> LoadedMetaGraph:
    """Return the meta graph with exactly these tags."""
    available = model.tag_sets()
    listed = ", ".join(_show_tags(tag_set) for tag_set in available) or "none"
    if tags is None:
        if len(available) == 1:
            return model.meta_graph(0)
        if _SERVE not in available:
            raise errors.NotFoundError(
                f"{model.path} has {len(available)} meta graphs, and none has only the tag "
                f"'serve'; choose one by tags=…: {listed}"
            )
        return model.meta_graph(available.index(_SERVE))
    requested = frozenset([tags] if isinstance(tags, str) else tags)
    if requested not in available:
        raise errors.NotFoundError(
            f"{model.path} has no meta graph with exactly the tags {_show_tags(requested)}; "
            f"available: {listed}"
        )
    return model.meta_graph(available.index(requested))


def _initialize(session: Session, folder: str, meta_graph: MetaGraphDef) -> None:
    """Restore the variables and run the initializer."""
    assets = asset_feeds(folder, meta_graph)
    init_op = _init_op(folder, meta_graph)
    saver = meta_graph.saver_def
    prefix = files.join(folder, *VARIABLES)
    if files.exists(prefix + ".index"):
        if saver.restore_op_name:
            feeds = {**assets, saver.filename_tensor_name: prefix}
            if init_op and _is_pure(session.graph, init_op):
                # As for most models of TensorFlow 2: their order cannot matter.
                _run_once(session, feeds, saver.restore_op_name, init_op)
                return
            _run_once(session, feeds, saver.restore_op_name)
    elif saver.restore_op_name and not _makes_variables(session.graph, init_op):
        raise errors.NotFoundError(
            f"{prefix}.index is missing: the model has variables but no initializer for them; "
            "copy the whole folder of the model"
        )
    if init_op:
        _run_once(session, assets, init_op)


def _is_pure(graph: Graph, init_op: str) -> bool:
    """Return whether the initializer neither reads nor changes any state."""
    nodes = ancestors([graph.node(init_op)])
    return not any(node.op_def.is_stateful or called_functions(node) for node in nodes)


def _run_once(session: Session, feeds: Mapping[str, Any], *targets: str) -> None:
    """Run operations once, with feeds by tensor name."""
    session.make_callable([], list(feeds), targets=list(targets))(*feeds.values())


def _init_op(folder: str, meta_graph: MetaGraphDef) -> str:
    """Return the name of the initializer, or "".

    Semantics: GetInitOp in tensorflow/cc/saved_model/loader.cc.
    """
    if INIT_SIGNATURE in meta_graph.signature_def:
        outputs = meta_graph.signature_def[INIT_SIGNATURE].outputs
        if INIT_SIGNATURE not in outputs:
            raise errors.FailedPreconditionError(
                f"{folder}: the signature {INIT_SIGNATURE} has no output of that name, which "
                "would name the initializer"
            )
        return outputs[INIT_SIGNATURE].name.partition(":")[0]
    for collection in INIT_COLLECTIONS:
        if collection in meta_graph.collection_def:
            names = list(meta_graph.collection_def[collection].node_list.value)
            if len(names) != 1:
                raise errors.FailedPreconditionError(
                    f"Expected exactly one main op in {folder}: collection {collection} has "
                    f"{len(names)}"
                )
            return names[0].partition(":")[0]
    return ""


def _makes_variables(graph: Graph, init_op: str) -> bool:
    """Return whether the initializer sets variables, or there are none.

    TensorFlow 2 writes an initializer into each model, but it only fills tables.
    """
    if not any(map(_is_variable, graph.nodes)):
        return True
    return bool(init_op) and any(map(_is_variable, ancestors([graph.node(init_op)])))


def _is_variable(node: Node) -> bool:
    return node.op_def.traits.source is Source.VARIABLE


def _show_tags(tags: Iterable[str]) -> str:
    return "{" + ", ".join(map(repr, sorted(tags))) + "}"
