"""`PluginRecord`: the state of one plugin, for `graphmill plugins` and for error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from graphmill.registry import Provenance

if TYPE_CHECKING:
    from collections.abc import Container

Status = Literal["loaded", "disabled", "failed", "conflict"]
Source = Literal["entry point", "environment", "argument"]


class PluginRecord:
    """State and contents of one plugin. Only the plugin manager writes it.

    Attributes:
        name: the plugin's name: of its entry point, or of its module if it has none.
        module: the reference of the entry point: "package.module" or "package.module:attribute".
        source: how it was found: by an entry point, by the environment variable
            `GRAPHMILL_LOAD_PLUGINS`, or as an argument of `Host`.
        distribution: name of the distribution; "" unless it came by entry point.
        version: version of the distribution; "" unless it came by entry point.
        status: "loaded"; "disabled" by the environment; "failed" by its own fault; "conflict" with
            another plugin.
        error: why it failed, in one line or a few; "" if it did not.
        exception: the exception that caused `error`, with its traceback, if there was one.
        is_required: whether a fault of it is an error and not a warning, and a conflict is resolved
            in its favour: the program passed it to `Host`, or it is installed with graphmill.
        registered: names of what it registered, by kind: {"ops": ["MyOp"], "devices": ["NPU"]};
            "hooks" lists its hooks that register nothing.
    """

    __slots__ = (
        "distribution",
        "error",
        "exception",
        "is_required",
        "module",
        "name",
        "registered",
        "source",
        "status",
        "version",
    )

    def __init__(
        self,
        name: str,
        module: str,
        source: Source,
        distribution: str = "",
        version: str = "",
        status: Status = "loaded",
        error: str = "",
        exception: BaseException | None = None,
        is_required: bool = False,
        registered: dict[str, list[str]] | None = None,
    ) -> None:
        self.name = name
        self.module = module
        self.source = source
        self.distribution = distribution
        self.version = version
        self.status = status
        self.error = error
        self.exception = exception
        self.is_required = is_required
        self.registered = {} if registered is None else registered

    @property
    def owner(self) -> Provenance:
        """The plugin's identity as the owner of its registrations."""
        return Provenance(self.name, self.distribution, self.version, self.module, self.is_required)

    @property
    def counts(self) -> dict[str, int]:
        """The number of its registrations of each kind."""
        return {kind: len(names) for kind, names in self.registered.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain values, ready for JSON."""
        return {
            "name": self.name,
            "module": self.module,
            "source": self.source,
            "distribution": self.distribution,
            "version": self.version,
            "status": self.status,
            "error": self.error,
            "registered": {kind: list(names) for kind, names in self.registered.items()},
        }

    def undefined_ops(self, kind: str, ops: Container[str]) -> list[str]:
        """Return the undefined ops that it registered kernels or lowerings for.

        Args:
            kind: "kernels" or "lowerings".
            ops: the defined ops.
        """
        names = [name for name in self.registered.get(kind, ()) if not name.startswith("family ")]
        return [name for name in dict.fromkeys(names) if name not in ops]

    def failure_note(self) -> str:
        """Return a line about the plugin for "not found" messages; "" if it did not fail."""
        if self.status in ("failed", "conflict"):
            return f"{self.owner}: {self.error.splitlines()[0]}"
        return ""
