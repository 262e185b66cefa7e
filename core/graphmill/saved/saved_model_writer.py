"""Write SavedModels that TensorFlow, TensorFlow Serving and graphmill load.

Semantics: tensorflow/python/saved_model/builder_impl.py, signature_def_utils_impl.py. The model is
one MetaGraph in the form of TensorFlow 1; its variables are in `variables/`, and it restores them
by the nodes of a `Saver`.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graphmill import files, proto
from graphmill.errors import AlreadyExistsError, InvalidArgumentError, UnimplementedError
from graphmill.files.status import typed_errors
from graphmill.graph.tensor import Tensor
from graphmill.ops.attrs.attr_value import shape_to_proto
from graphmill.saved.assets import FOLDER as ASSETS
from graphmill.saved.internal_signatures import INIT_SIGNATURE
from graphmill.saved.saved_model import VARIABLES
from graphmill.saved.signature import tensor_names
from graphmill.train.checkpoints.saver import Saver
from graphmill.train.meta_graph_export import meta_graph_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.proto import SignatureDef, TensorInfo
    from graphmill.session.session import Session

    AnyPath = str | os.PathLike[str]

DEFAULT_SIGNATURE: Final = "serving_default"
PREDICT: Final = "tensorflow/serving/predict"
_SCHEMA_VERSION: Final = 1
FILE_NAME: Final = "saved_model.pb"


def build_signature_def(
    inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], method_name: str = PREDICT
) -> SignatureDef:
    """Return a signature of tensors.

    Args:
        inputs, outputs: the tensors by the names that callers use.
        method_name: the method of TensorFlow Serving that it serves; by default Predict.

    Raises:
        InvalidArgumentError: there are no outputs, or one is not a tensor.
    """
    if not outputs:
        raise InvalidArgumentError("a signature needs at least one output")
    signature = proto.SignatureDef(method_name=method_name)
    for named, ports in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for name, tensor in named.items():
            ports[name].CopyFrom(_tensor_info(name, tensor))
    return signature


def save(
    session: Session,
    export_dir: AnyPath,
    signatures: Mapping[str, SignatureDef] | SignatureDef,
    *,
    tags: Iterable[str] = ("serve",),
    assets: Mapping[Tensor, AnyPath] | None = None,
    main_op: Node | None = None,
    saver: Saver | None = None,
) -> str:
    """Save the graph of a session and the values of its variables as a SavedModel.

    The folder appears when everything is written; if that fails, nothing remains.

    Args:
        session: a session of a `graphmill.Graph`.
        export_dir: the folder of the model; it must not exist.
        signatures: the signatures by key, from `build_signature_def`; or one, for
            `serving_default`.
        tags: the tags of the MetaGraph.
        assets: files that belong to the model, by the string tensor to which the file's path is
            fed while `main_op` runs.
        main_op: an operation that loading the model runs, such as one that fills tables.
        saver: saves and restores the variables; by default one of all variables of the graph, whose
            nodes are added to the graph.

    Returns:
        The folder.

    Raises:
        AlreadyExistsError: the folder exists.
        InvalidArgumentError: a signature or asset does not belong to the graph, two assets have
            the same file name, or the saver writes checkpoints in format V1.
        FailedPreconditionError: a variable has no value.
        NotFoundError: an asset does not exist.
        UnimplementedError: the folder is a URL.
        OpError: the files cannot be written.
    """
    target = files.as_path(export_dir)
    if files.is_url(target):
        raise UnimplementedError(f"{target} is a URL; save to a local folder, then copy it")
    if files.exists(target):
        raise AlreadyExistsError(f"{target} exists already; choose a new folder for the model")
    is_one = isinstance(signatures, proto.SignatureDef)
    by_key: Any = {DEFAULT_SIGNATURE: signatures} if is_one else signatures
    graph = session.graph
    named_assets = _named_assets(graph, assets or {})
    used = saver or (Saver(graph=graph) if graph.variables else None)
    if used is not None and used.write_version != proto.SaverDef.V2:
        raise InvalidArgumentError(
            "the variables of a SavedModel are a checkpoint in format V2, but the saver writes "
            "format V1; pass a saver with write_version=SaverDef.V2"
        )
    message = meta_graph_of(graph) if used is None else used.export_meta_graph()
    message.meta_info_def.tags.extend(tags)
    for key, signature in by_key.items():
        _check_signature(key, signature, graph)
        message.signature_def[key].CopyFrom(signature)
    for name, (tensor, _) in named_assets.items():
        asset = message.asset_file_def.add(filename=name)
        asset.tensor_info.CopyFrom(_tensor_info(name, tensor))
    if main_op is not None:
        init = message.signature_def[INIT_SIGNATURE].outputs[INIT_SIGNATURE]
        init.name = main_op.name
    with _new_folder(target) as folder:
        if used is not None:
            prefix = files.join(folder, *VARIABLES)
            used.save(session, prefix, write_meta_graph=False, write_state=False)
        for name, (_, path) in named_assets.items():
            files.make_dirs(files.join(folder, ASSETS))
            files.write(files.join(folder, ASSETS, name), files.read_bytes(path))
        saved = proto.SavedModel(saved_model_schema_version=_SCHEMA_VERSION, meta_graphs=[message])
        files.write(files.join(folder, FILE_NAME), saved.SerializeToString())
    return target


def simple_save(
    session: Session,
    export_dir: AnyPath,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
) -> str:
    """Save the graph and variables of a session as a SavedModel with one signature.

        x = F.placeholder("float32", [None], name="x")
        w = graphmill.Variable(2.0, name="w")
        session.run(w.initializer)
        graphmill.saved_model.simple_save(session, "model", inputs={"x": x}, outputs={"y": x * w})
        with graphmill.saved_model.load("model") as model:
            print(model.signatures["serving_default"](x=[3.0])["y"])  # [6.]

    Args:
        session: the session whose variables are saved.
        export_dir: the folder of the model; it must not exist.
        inputs, outputs: the tensors of the signature `serving_default`, by the names that callers
            use.

    Raises:
        OpError: as for `save`.
    """
    return save(session, export_dir, build_signature_def(inputs, outputs))


def _tensor_info(name: str, tensor: Any) -> TensorInfo:
    if not isinstance(tensor, Tensor):
        raise InvalidArgumentError(
            f"{name!r} is a {type(tensor).__name__}, expected a tensor of a graph"
        )
    dtype: Any = tensor.dtype.base_dtype.enum
    info = proto.TensorInfo(name=tensor.name, dtype=dtype)
    shape = tensor.shape
    is_known = shape.rank is not None
    sizes = tuple(-1 if size is None else size for size in shape) if is_known else None
    info.tensor_shape.SetInParent()  # a scalar's is empty, and its rank is known nevertheless
    shape_to_proto(sizes, info.tensor_shape)
    return info


def _check_signature(key: str, signature: SignatureDef, graph: Graph) -> None:
    for ports in (signature.inputs, signature.outputs):
        for port, info in ports.items():
            for name in tensor_names(info):
                if not graph.has_node(name.partition(":")[0]):
                    raise InvalidArgumentError(
                        f"the tensor '{name}' of {port!r} in signature {key!r} is not in the "
                        "session's graph; make the signature of tensors of session.graph"
                    )


def _named_assets(graph: Any, assets: Mapping[Tensor, AnyPath]) -> dict[str, tuple[Tensor, str]]:
    """Return the tensor and the path of each asset by file name."""
    named: dict[str, tuple[Tensor, str]] = {}
    for tensor, path in assets.items():
        name = files.as_path(path).rpartition("/")[2]
        if name in named:
            raise InvalidArgumentError(f"two assets are named {name!r}; rename one of the files")
        if getattr(tensor, "graph", None) is not graph:
            raise InvalidArgumentError(
                f"the tensor of asset {name!r} is not in the session's graph; pass a tensor of "
                "session.graph"
            )
        named[name] = tensor, files.as_path(path)
    return named


@contextmanager
def _new_folder(target: str) -> Iterator[str]:
    """Yield a temporary folder, which becomes `target` at the end, or is removed on an error."""
    parent = files.parent(target) or "."
    files.make_dirs(parent)
    with typed_errors(target):
        temporary = tempfile.mkdtemp(prefix=".saving-", dir=parent)
    try:
        yield temporary
        with typed_errors(target):
            Path(temporary).chmod(0o755)  # mkdtemp lets nobody else read it
            Path(temporary).rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
