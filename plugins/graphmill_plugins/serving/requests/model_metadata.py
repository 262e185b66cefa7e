"""The states and signatures of models as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.protos import proto

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill_plugins.serving.models.model_version import ModelVersion


def version_statuses(versions: Iterable[ModelVersion]) -> list[proto.ModelVersionStatus]:
    """Return the state of each version, and why it could not be loaded."""
    statuses = []
    for version in versions:
        status = proto.ModelVersionStatus(version=version.number)
        status.state = version.state.value  # type: ignore[assignment]
        status.status.SetInParent()
        if version.error is not None:
            status.status.error_code = version.error.code  # type: ignore[assignment]
            status.status.error_message = version.error.message
        statuses.append(status)
    return statuses


def signature_def_map(version: ModelVersion) -> proto.SignatureDefMap:
    """Return the signatures of a loaded model."""
    signatures = proto.SignatureDefMap()
    assert version.saved_model is not None, "an available version is loaded"
    for name, definition in version.saved_model.meta_graph.signature_def.items():
        signatures.signature_def[name].CopyFrom(definition)
    return signatures
