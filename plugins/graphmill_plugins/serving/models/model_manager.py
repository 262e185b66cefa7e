"""`ModelManager`: load and unload versions of models, and follow changes of their folders.

A new version is loaded and warmed up before the previous one is unloaded, which finishes the
requests that it has received. So a swap loses no request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from graphmill.errors import (
    FailedPreconditionError,
    InternalError,
    NotFoundError,
    OpError,
    suggest,
)
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins.serving.models.model_settings import read_config
from graphmill_plugins.serving.models.model_version import ModelVersion, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from graphmill_plugins.serving.models.model_settings import ModelSettings
    from graphmill_plugins.serving.server_options import ServerOptions

_log = logging.getLogger("graphmill.serving")
_T = TypeVar("_T")

_LOAD_THREADS: Final = 2
_MAX_RETRY_SECONDS: Final = 300.0
_MAX_ENDED_VERSIONS: Final = 16
"""The maximum number of unloaded versions that a model's status lists."""


class _Model:
    """The versions of one model.

    Attributes:
        settings: what is to be served.
        versions: by number.
        error: why its folder could not be listed; None if it could.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.versions: dict[int, ModelVersion] = {}
        self.latest: ModelVersion | None = None
        self.error: OpError | None = None

    def update_latest(self) -> None:
        """Set `latest` to the highest version that is available."""
        available = [v for v in self.versions.values() if v.state is State.AVAILABLE]
        self.latest = max(available, key=lambda version: version.number, default=None)

    def forget_old_versions(self) -> None:
        ended = sorted(n for n, v in self.versions.items() if v.state is State.END and not v.error)
        for number in ended[:-_MAX_ENDED_VERSIONS]:
            del self.versions[number]


class ModelManager:
    """Loads, finds and unloads the versions of all models.

    Args:
        options: those of the server.
        on_batch: is called with a model's name and the number of rows of each batch that ran.

    Threads: all methods are for the thread of the event loop.
    """

    def __init__(self, options: ServerOptions, on_batch: Callable[[str, int], None]) -> None:
        self._options = options
        self._on_batch = on_batch
        self._models: dict[str, _Model] = {}
        self._loaders = ThreadPoolExecutor(_LOAD_THREADS, "graphmill-load")
        self._updating = asyncio.Lock()
        self._unloading: set[asyncio.Task[None]] = set()
        self._config: list[ModelSettings] | None = None
        self._config_error = ""

    async def start(self) -> None:
        """Load the models of the options.

        Raises:
            OpError: the configuration is malformed, or no model at all could be loaded.
        """
        settings: Iterable[ModelSettings] = self._options.models
        if self._options.config_file is not None:
            settings = self._config = await self._in_loader(read_config, self._options.config_file)
        await self._set_models(settings)
        await self.update()
        errors = list(self._errors())
        if errors and all(model.latest is None for model in self._models.values()):
            raise errors[0]

    async def watch(self) -> None:
        """List the folders of the models, and update them, until cancelled."""
        if not self._options.poll_seconds:
            return
        while True:
            await asyncio.sleep(self._options.poll_seconds)
            await self._reread_config()
            await self.update()

    async def reload(self, settings: Iterable[ModelSettings]) -> None:
        """Serve other models from now on, as HandleReloadConfigRequest does.

        Raises:
            OpError: a model could not be loaded; the others are served.
        """
        await self._set_models(settings)
        await self.update()
        for error in self._errors():
            raise error

    async def update(self) -> None:
        """Load new versions, and unload those that are no longer to be served."""
        async with self._updating:
            await asyncio.gather(*[self._update_model(m) for m in self._models.values()])

    def find(self, name: str, version: int | None = None, label: str | None = None) -> ModelVersion:
        """Return an available version of a model: the latest, unless a request names another.

        Raises:
            NotFoundError: there is no such model, version or label, or it is not available.
        """
        model = self._models.get(name)
        if model is None:
            raise NotFoundError(
                f"Servable not found for request: Latest({name}). There is no model "
                f"{name!r}{suggest(name, self._models)}"
            )
        if label is not None:
            if label not in model.settings.labels:
                raise NotFoundError(
                    f"Unrecognized servable version label: {label}"
                    f"{suggest(label, model.settings.labels)}"
                )
            version = model.settings.labels[label]
        if version is None:
            if model.latest is None:
                raise NotFoundError(
                    f"Servable not found for request: Latest({name}). {_why_none(model)}"
                )
            return model.latest
        found = model.versions.get(version)
        if found is None or found.state is not State.AVAILABLE:
            raise NotFoundError(
                f"Servable not found for request: Specific({name}, {version}). "
                + (_why_none(model) if found is None else f"It is in state {found.state.name}")
            )
        return found

    def statuses(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> list[ModelVersion]:
        """Return all versions of a model that are or were served, or one; newest first.

        Raises:
            NotFoundError: there is none.
        """
        model = self._models.get(name)
        if label is not None:
            version = self.find(name, None, label).number
        if model is None or not model.versions:
            raise NotFoundError(f"Could not find any versions of model {name}")
        if version is None:
            return [model.versions[number] for number in sorted(model.versions, reverse=True)]
        if version not in model.versions:
            raise NotFoundError(f"Could not find version {version} of model {name}")
        return [model.versions[version]]

    def available_versions(self, name: str) -> list[int]:
        """Return the numbers of the versions of a model that are available."""
        model = self._models.get(name)
        versions = model.versions.values() if model else ()
        return sorted(v.number for v in versions if v.state is State.AVAILABLE)

    def versions(self) -> Iterator[ModelVersion]:
        """Yield all versions of all models."""
        for model in self._models.values():
            yield from model.versions.values()

    def is_known(self, name: str) -> bool:
        """Return whether there is a model of this name."""
        return name in self._models

    @property
    def is_ready(self) -> bool:
        """Whether every model has an available version."""
        return all(model.latest is not None for model in self._models.values())

    def give_up(self) -> None:
        """Fail all requests in progress, and later ones."""
        for version in self.versions():
            version.give_up()

    async def close(self, grace: float | None) -> None:
        """Unload everything; requests in progress may take `grace` seconds."""
        async with self._updating:
            versions = [v for v in self.versions() if v.state is State.AVAILABLE]
            self._models = {}
            await asyncio.gather(*[version.unload(grace) for version in versions])
            if self._unloading:
                await asyncio.gather(*self._unloading)
        await asyncio.to_thread(self._loaders.shutdown)

    async def _set_models(self, settings: Iterable[ModelSettings]) -> None:
        """Replace the models; versions of models that are gone are unloaded."""
        async with self._updating:  # a version that is being loaded cannot be unloaded yet
            before, self._models = self._models, {}
            for wanted in settings:
                model = before.get(wanted.name)
                if model is None or model.settings.path != wanted.path:
                    model = _Model(wanted)
                else:
                    del before[wanted.name]
                    model.settings = wanted
                self._models[wanted.name] = model
            for model in before.values():
                for version in model.versions.values():
                    self._unload(version)

    async def _reread_config(self) -> None:
        """Apply the configuration file if it has changed; a malformed one changes nothing."""
        path = self._options.config_file
        if path is None:
            return
        try:
            settings = await self._in_loader(read_config, path)
        except OpError as error:
            if error.message != self._config_error:
                self._config_error = error.message
                log_event(
                    _log, logging.ERROR, "configuration not applied", path=path, error=error.message
                )
            return
        self._config_error = ""
        if settings != self._config:
            self._config = settings
            await self._set_models(settings)
            log_event(_log, logging.INFO, "configuration applied", path=path)

    async def _update_model(self, model: _Model) -> None:
        try:
            folders = await self._in_loader(model.settings.find_versions)
        except OpError as error:
            if model.error is None or model.error.message != error.message:
                log_event(
                    _log, logging.ERROR, "folder not listed",
                    model=model.settings.name, error=error.message,
                )  # fmt: skip
            model.error = error
            return  # keep serving: the folder may be unreachable only for a while
        model.error = None
        selected = model.settings.policy.select(folders)
        await asyncio.gather(*[self._load(model, n, folders[n]) for n in selected])
        if selected and not any(_is_available(model, number) for number in selected):
            return  # keep the versions that work
        for number, version in model.versions.items():
            if number not in selected and version.state is State.AVAILABLE:
                self._unload(version)
        model.update_latest()
        model.forget_old_versions()

    async def _load(self, model: _Model, number: int, path: str) -> None:
        """Load a version, unless it is loaded or has failed just now."""
        version = model.versions.get(number)
        if version is not None and version.state is State.END and version.error is None:
            version = None  # it was unloaded, and is requested again
        if version is None:
            name = model.settings.name
            version = model.versions[number] = ModelVersion(
                name, number, path, self._options, lambda rows: self._on_batch(name, rows)
            )
        elif version.state is not State.END or time.monotonic() < version.retry_at:
            return
        version.state = State.LOADING
        started = time.perf_counter()
        try:
            loaded, requests = await self._in_loader(version.load)
        except OpError as error:
            self._report_failure(version, error)
            return
        except Exception as error:  # noqa: BLE001 - of a plugin; other models are served
            failure = InternalError(f"loading {path} failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._report_failure(version, failure)
            return
        version.open(loaded)
        model.update_latest()
        log_event(
            _log, logging.INFO, "model loaded", model=version.model, version=number,
            path=path, seconds=round(time.perf_counter() - started, 3), warmup_requests=requests,
        )  # fmt: skip
        for signature, reason in version.unbatched.items():
            log_event(
                _log, logging.INFO, "requests not batched", model=version.model, version=number,
                signature=signature, reason=reason,
            )  # fmt: skip

    def _report_failure(self, version: ModelVersion, error: OpError) -> None:
        wait = min(_MAX_RETRY_SECONDS, max(self._options.poll_seconds, 0.1) * 2**version.attempts)
        is_new = version.error is None or version.error.message != error.message
        version.fail(error, wait)
        if is_new:
            log_event(
                _log, logging.ERROR, "model not loaded", model=version.model,
                version=version.number, path=version.path, error=error.message,
            )  # fmt: skip

    def _unload(self, version: ModelVersion) -> None:
        if version.state is not State.AVAILABLE:
            return
        version.state = State.UNLOADING
        task = asyncio.get_running_loop().create_task(self._unload_and_log(version))
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)

    async def _unload_and_log(self, version: ModelVersion) -> None:
        await version.unload(None)
        log_event(_log, logging.INFO, "model unloaded", model=version.model, version=version.number)

    def _errors(self) -> Iterator[OpError]:
        for model in self._models.values():
            if model.latest is not None:
                continue
            errors = [version.error for version in model.versions.values() if version.error]
            if errors:
                yield errors[-1]
            else:
                yield model.error or FailedPreconditionError(_why_none(model))

    async def _in_loader(self, function: Callable[..., _T], *arguments: object) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._loaders, function, *arguments)


def _is_available(model: _Model, number: int) -> bool:
    version = model.versions.get(number)
    return version is not None and version.state is State.AVAILABLE


def _why_none(model: _Model) -> str:
    """Return why no version of a model is available."""
    if model.error is not None:
        return model.error.message
    for version in model.versions.values():
        if version.error is not None:
            return f"Version {version.number} could not be loaded: {version.error.message}"
    if model.latest is not None:
        return f"Its latest version is {model.latest.number}"
    return (
        f"The folder {model.settings.path} has no version to serve: expected a sub-folder named by "
        "a number, as 1, with a SavedModel"
    )
