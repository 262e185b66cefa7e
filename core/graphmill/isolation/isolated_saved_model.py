"""`IsolatedSavedModel`: the result of `saved_model.load(…, isolate=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from graphmill.errors import OpError
from graphmill.isolation.isolated_session import IsolatedSession
from graphmill.saved.signature import Signatures

if TYPE_CHECKING:
    from graphmill.proto.meta_graph_pb2 import MetaGraphDef


class IsolatedSavedModel:
    """A SavedModel in a process of its own, after its initializer has run there.

        with graphmill.saved_model.load("digits", isolate=True) as model:
            answer = model.signatures["serving_default"](image=pixels)

    Attributes:
        path: the model's folder.
        tags: the tags of the loaded meta graph.
        meta_graph: the `MetaGraphDef` with tags and signatures; its graph stays in the process.
        session: the `IsolatedSession` that runs its steps.
        signatures: the signatures by name, each callable with arrays by input name.
    """

    def __init__(self, path: str, session: IsolatedSession) -> None:
        self.path = path
        self.session = session
        self.meta_graph: MetaGraphDef = session.meta_graph
        self.tags = frozenset(self.meta_graph.meta_info_def.tags)
        self.signatures = Signatures(self.meta_graph.signature_def, session)

    def close(self) -> None:
        """End the process; safe to call twice."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"IsolatedSavedModel({self.path!r}, tags={sorted(self.tags)}, {self.signatures})"


def load_isolated(path: str, tags: Any, config: Any, **options: Any) -> IsolatedSavedModel:
    """Load a SavedModel in a process of its own; the options are those of `IsolatedSession`.

    Raises:
        OpError: see `IsolatedSession`.
    """
    session = IsolatedSession(path, tags, config, **options)
    try:
        return IsolatedSavedModel(path, session)
    except BaseException as error:
        session.close()
        if isinstance(error, OpError):
            error.add_note(f"the signatures of {path} are malformed")
        raise
