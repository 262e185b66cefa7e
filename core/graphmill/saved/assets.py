"""Assets: additional files of a SavedModel, and the tensors to which their paths are fed."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from graphmill import errors, files, proto

if TYPE_CHECKING:
    from graphmill.proto.meta_graph_pb2 import AssetFileDef, MetaGraphDef

FOLDER = "assets"
_COLLECTION = "saved_model_assets"


def asset_feeds(folder: str, meta_graph: MetaGraphDef) -> dict[str, str]:
    """Map the name of the tensor to feed for each asset to the asset's path.

    Semantics: GetAssetFileDefs in tensorflow/cc/saved_model/loader.cc.

    Raises:
        PermissionDeniedError: an asset's path is outside the model's folder.
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
    """Return the path of an asset, whose name must not point outside the model's folder.

    Symbolic links in the folder are followed: whoever can create one can also copy the file.
    """
    plain = name.replace("\\", "/")
    parts = plain.split("/")
    if posixpath.isabs(plain) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise errors.PermissionDeniedError(
            f"the model refers to an asset {name!r} outside its folder {folder}, which is not "
            "allowed. If you trust the model, copy the file into "
            f"{files.join(folder, FOLDER)} and correct the path in the model"
        )
    return files.join(folder, FOLDER, name)
