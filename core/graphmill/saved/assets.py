"""Assets: the files of a SavedModel beside its graph, and the tensors that take their paths."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from graphmill import errors, files, proto

if TYPE_CHECKING:
    from graphmill.proto.meta_graph_pb2 import AssetFileDef, MetaGraphDef

_FOLDER = "assets"
_COLLECTION = "saved_model_assets"


def asset_feeds(folder: str, meta_graph: MetaGraphDef) -> dict[str, str]:
    """Return the path of each asset by the name of the tensor that takes it.

    Semantics: GetAssetFileDefs in tensorflow/cc/saved_model/loader.cc.

    Raises:
        PermissionDeniedError: an asset's name leads out of the model's folder.
        DataLossError: the collection of assets is damaged.
    """
    return {
        asset.tensor_info.name: _asset_path(folder, asset.filename)
        for asset in _asset_defs(meta_graph)
    }


def _asset_defs(meta_graph: MetaGraphDef) -> list[AssetFileDef]:
    if meta_graph.asset_file_def:  # TensorFlow 2
        return list(meta_graph.asset_file_def)
    if _COLLECTION not in meta_graph.collection_def:
        return []
    packed = meta_graph.collection_def[_COLLECTION].any_list.value
    try:
        return [proto.AssetFileDef.FromString(asset.value) for asset in packed]
    except DecodeError as error:
        raise errors.DataLossError(f"the collection {_COLLECTION} is damaged: {error}") from error


def _asset_path(folder: str, name: str) -> str:
    """Return the path of an asset, which must lie in the model's folder by its name.

    A link in the folder is followed: who puts one there may also copy the file there.
    """
    plain = name.replace("\\", "/")
    parts: list[Any] = plain.split("/")
    if posixpath.isabs(plain) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise errors.PermissionDeniedError(
            f"the model names an asset {name!r}, which is outside its folder {folder}; a model "
            "must not lead to other files. If this one is to be trusted, copy the file into "
            f"{files.join(folder, _FOLDER)} and correct the model"
        )
    return files.join(folder, _FOLDER, name)
