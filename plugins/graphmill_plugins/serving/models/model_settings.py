"""`ModelSettings`: the name, folder and versions of a model, from a path or a config file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from google.protobuf import text_format

from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from graphmill.spi.files import as_path, exists, is_dir, join, list_dir, parent, read_bytes
from graphmill.spi.protos import proto

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

_MODEL_FILES: Final = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
_VERSION: Final = re.compile(r"0*[0-9]{1,18}")
_PLATFORM: Final = "tensorflow"


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Which versions of a model are served.

    Attributes:
        latest: how many of the highest versions; 0 for all.
        specific: these versions only; then `latest` does not matter.
    """

    latest: int = 1
    specific: tuple[int, ...] = ()

    def select(self, available: Iterable[int]) -> list[int]:
        """Return the versions to serve among those available, in rising order."""
        versions = sorted(set(available))
        if self.specific:
            return [version for version in versions if version in self.specific]
        return versions[-self.latest :] if self.latest else versions


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A model to serve.

    Attributes:
        name: its name in requests.
        path: its folder, which has a sub-folder for each version; or the folder of a SavedModel,
            which is then its only version.
        policy: which versions are served.
        labels: names of versions, such as "stable".
    """

    name: str
    path: str
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that no request could contain."""
        if not self.name or re.search("[/:]", self.name):
            raise InvalidArgumentError(
                f"{self.name!r} is not a model name; expected a text without '/' and ':'"
            )
        if not self.path:
            raise InvalidArgumentError(
                f"the model {self.name!r} has no base_path; set it to a folder"
            )

    def find_versions(self) -> dict[int, str]:
        """Return the folders of all versions by number.

        Semantics: `FileSystemStoragePathSource` of TensorFlow Serving: sub-folders whose name is a
        number are versions. The folder of a SavedModel is version 1, or the number in its name.

        Raises:
            NotFoundError: the folder does not exist.
        """
        if is_saved_model(self.path):
            name = base_name(self.path)
            return {int(name) if _VERSION.fullmatch(name) else 1: self.path}
        if not is_dir(self.path):
            raise NotFoundError(
                f"the folder {self.path} of model {self.name!r} does not exist; expected one with "
                "a sub-folder for each version (1, 2, …)"
            )
        names = filter(_VERSION.fullmatch, map(base_name, list_dir(self.path)))
        return {int(name): join(self.path, name) for name in names}


def is_saved_model(folder: str) -> bool:
    """Return whether a folder contains a SavedModel."""
    return any(exists(join(folder, name)) for name in _MODEL_FILES)


def settings_of_path(path: str | os.PathLike[str], name: str | None = None) -> ModelSettings:
    """Return the settings of a model on the command line.

    Args:
        path: the folder of a SavedModel, its file `saved_model.pb`, or a folder of versions.
        name: its name; by default that of the folder, without the number of a version.

    Raises:
        NotFoundError: there is no such folder.
        InvalidArgumentError: the path is a file that is not a SavedModel, or the name is invalid.
    """
    folder = as_path(path).rstrip("/") or "/"
    if base_name(folder) in _MODEL_FILES:
        folder = parent(folder) or "."
    if not is_dir(folder):
        if exists(folder):
            raise InvalidArgumentError(
                f"{folder} is a file; expected the folder of a SavedModel, or a folder with a "
                "sub-folder for each version (1, 2, …)"
            )
        raise NotFoundError(f"there is no folder {folder}")
    if name is None:
        name = base_name(folder)
        if _VERSION.fullmatch(name):
            name = base_name(parent(folder))
    return ModelSettings(name or "model", folder)


def read_config(path: str) -> list[ModelSettings]:
    """Return the models of a file with a `ModelServerConfig` in text form.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it is malformed, or two models have one name.
        UnimplementedError: it asks for another platform, for logging or for a custom config.
    """
    try:
        message = text_format.Parse(read_bytes(path).decode("utf-8"), proto.ModelServerConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"{path} is not a ModelServerConfig message in text form: {error}"
        ) from error
    return settings_of_config(message, path)


def settings_of_config(message: proto.ModelServerConfig, source: str) -> list[ModelSettings]:
    """Return the models of a `ModelServerConfig`; see `read_config`.

    Args:
        message: the configuration.
        source: where it comes from, for errors.
    """
    if message.HasField("custom_model_config"):
        raise UnimplementedError(
            f"{source} has a custom_model_config; graphmill serves a model_config_list"
        )
    models: dict[str, ModelSettings] = {}
    for config in message.model_config_list.config:
        if config.name in models:
            raise InvalidArgumentError(
                f"{source} has two models with the name {config.name!r}; rename one"
            )
        models[config.name] = _settings(config, source)
    return list(models.values())


def _settings(config: proto.ModelConfig, source: str) -> ModelSettings:
    if config.model_platform not in ("", _PLATFORM) or config.model_type == proto.ModelType.OTHER:
        raise UnimplementedError(
            f"model {config.name!r} in {source} has the platform {config.model_platform!r}; "
            f"graphmill serves {_PLATFORM!r}"
        )
    if config.HasField("logging_config"):
        raise UnimplementedError(
            f"model {config.name!r} in {source} has a logging_config: requests are not recorded; "
            "remove it (--log-level info writes a line for each request)"
        )
    return ModelSettings(
        config.name, config.base_path, _policy(config), dict(config.version_labels)
    )


def _policy(config: proto.ModelConfig) -> VersionPolicy:
    policy = config.model_version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return VersionPolicy(latest=0)
    if choice == "specific":
        if not policy.specific.versions:
            raise InvalidArgumentError(
                f"model {config.name!r} has a 'specific' version policy without versions; list them"
            )
        return VersionPolicy(specific=tuple(policy.specific.versions))
    return VersionPolicy(latest=policy.latest.num_versions or 1)


def base_name(path: str) -> str:
    """Return the last part of a path or URL."""
    return path.rstrip("/").replace("\\", "/").rpartition("/")[2]
