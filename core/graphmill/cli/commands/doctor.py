"""`graphmill doctor`: report what is installed, what is wrong with it, and how to fix it."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from graphmill import distribution, errors
from graphmill.cli.diagnostics.compile_cache import VARIABLES as CACHE_VARIABLES
from graphmill.cli.diagnostics.compile_cache import advice_on_cache, cache_sizes
from graphmill.cli.diagnostics.installation import (
    advice_on_distributions,
    advice_on_plugins,
    advice_on_requirements,
    version_of,
)
from graphmill.cli.options import Settings, common_options, pass_settings
from graphmill.cli.output.formatting import Table, emit

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

_LIBRARIES: Final = (
    *("graphmill", "graphmill-lite", "numpy", "protobuf", "pluggy", "ml_dtypes", "jax", "jaxlib"),
    *("click", "rich"),
    *("fsspec", "google-crc32c", "array-api-compat", "google-re2", "scipy", "pillow", "torch"),
)
_MAX_LISTED_NAMES: Final = 3
_WITHOUT_JAX: Final = (
    "not installed: steps are interpreted, never compiled; there are no devices GPU and XLA_CPU, "
    "and no export to jax and stablehlo"
)
_VARIABLES: Final = (
    *("GRAPHMILL_DISABLE_PLUGINS", "GRAPHMILL_LOAD_PLUGINS", "GRAPHMILL_TRACEBACK"),
    *("GRAPHMILL_PROCESS_EFFECTS", "GRAPHMILL_VALIDATE", "JAX_PLATFORMS", "XLA_FLAGS"),
    *CACHE_VARIABLES,
)


@dataclass(slots=True)
class Diagnosis:
    """The findings of `graphmill doctor`.

    Attributes:
        python: version and platform.
        spi: version of the plugin interface.
        versions: version of each library that graphmill uses; None if it is not installed.
        environment: environment variables that are set.
        plugins: the records of all plugins.
        jax: JAX's platform and devices; or, under "missing", what does not exist without it; or,
            under "error", the reason why it cannot be used.
        caches: size in bytes of each folder of compiled programs; None if it does not exist.
        isolation: "available", or why `--isolate` is refused.
        process: the state of each process-wide effect: on or off.
        advice: one line for each problem, which says how to fix it.
    """

    python: str
    spi: str
    versions: dict[str, str | None]
    environment: dict[str, str]
    plugins: list[dict[str, Any]]
    jax: dict[str, Any]
    caches: dict[str, int | None]
    isolation: str
    process: dict[str, str]
    advice: list[str] = field(default_factory=list)


@click.command()
@common_options
@pass_settings
def doctor(settings: Settings) -> int:
    """Check versions, plugins, JAX and caches; give a line of advice for each problem.

    The exit code is 1 if there is any advice: a plugin that is not used, a library that is missing.
    """
    import warnings

    from graphmill.registry import PluginWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # the advice below reports the same
        try:
            host, problem = settings.the_host(), ""
        except errors.OpError as error:  # a built-in plugin is broken
            host, problem = None, error.message
    diagnosis = diagnose(host)
    if problem:
        diagnosis.advice.insert(0, f"graphmill cannot be used: {problem}; reinstall it")
    emit(
        asdict(diagnosis),
        [*_tables(diagnosis), *_advice_lines(diagnosis)],
        as_json=settings.as_json,
    )
    return 1 if diagnosis.advice else 0


def diagnose(host: Host | None) -> Diagnosis:
    """Examine this installation; `host` is None if none could be assembled."""
    from graphmill.isolation.limits import PROTECTIONS
    from graphmill.isolation.protections import why_not
    from graphmill.plugin.spi_version import VERSION
    from graphmill.runtime.process import effects

    diagnosis = Diagnosis(
        python=f"{platform.python_version()} on {platform.platform()}",
        spi=".".join(map(str, VERSION)),
        versions={name: version_of(name) for name in _LIBRARIES},
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        plugins=[record.as_dict() for record in host.plugins] if host else [],
        jax=_jax(),
        caches=cache_sizes(),
        isolation=why_not(PROTECTIONS) or "available",
        process={name: effects.state_of(effect) for name, effect in effects.EFFECTS.items()},
    )
    diagnosis.advice = [
        *advice_on_distributions(),
        *advice_on_requirements(_distributions(host)),
    ]
    if host is not None:
        diagnosis.advice[:0] = advice_on_plugins(host)
    if "error" in diagnosis.jax:
        diagnosis.advice.append(
            f"JAX cannot be used ({diagnosis.jax['error']}): reinstall jax and jaxlib"
        )
    diagnosis.advice.extend(advice_on_cache())
    return diagnosis


def _distributions(host: Host | None) -> list[str]:
    """Return the distributions of graphmill and of the plugins that are used."""
    records = host.plugins if host else ()
    used = {record.distribution for record in records if record.status == "loaded"}
    return [*distribution.installed(), *sorted(used - {distribution.FULL, distribution.LITE})]


def _jax() -> dict[str, Any]:
    """Return JAX's version and devices, queried in a subprocess because it may reserve a GPU."""
    import json
    import subprocess

    if version_of("jax") is None:  # an error for `graphmill`, whose requirements say so
        return {"missing": _WITHOUT_JAX}

    code = (
        "import json, jax\n"
        "print(json.dumps({'platform': jax.default_backend(), "
        "'devices': [str(d) for d in jax.devices()]}))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": "it did not start within a minute"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["it ended without output"])[-1]}
    versions: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return versions


def _tables(diagnosis: Diagnosis) -> list[Table | str]:
    versions = Table(("library", "version"), title="")
    versions.rows = [
        (name, version or "not installed") for name, version in diagnosis.versions.items()
    ]
    plugins = Table(("plugin", "distribution", "status", "supplies"))
    for record in diagnosis.plugins:
        origin = f"{record['distribution']} {record['version']}".strip() or record["source"]
        supplies = ", ".join(_brief(kind, names) for kind, names in record["registered"].items())
        plugins.rows.append((record["name"], origin, record["status"], supplies or "-"))
    jax = diagnosis.jax
    state = jax.get("error") or jax.get("missing")
    state = state or f"{jax['platform']}: {', '.join(jax['devices'])}"
    caches = ", ".join(
        f"{name}: {'none' if size is None else f'{size} bytes'}"
        for name, size in diagnosis.caches.items()
    )
    lines = [f"Python {diagnosis.python}; graphmill.spi {diagnosis.spi}", f"JAX: {state}", caches]
    lines.append(f"isolation of models: {diagnosis.isolation}")
    lines += [f"{name}={value}" for name, value in diagnosis.environment.items()]
    return [versions, plugins, _process_table(diagnosis.process), *lines]


def _process_table(states: dict[str, str]) -> Table:
    """Return the table of process-wide effects and whether each is on."""
    from graphmill.runtime.process.effects import EFFECTS

    table = Table(("process effect", "state", "change", "when"))
    table.rows = [
        (name, state, EFFECTS[name].changes, EFFECTS[name].when) for name, state in states.items()
    ]
    return table


def _brief(kind: str, names: list[str]) -> str:
    """Return the names if there are few, else their count."""
    if len(names) > _MAX_LISTED_NAMES or "" in names:
        return f"{len(names)} {kind}"
    one = "pass" if kind == "passes" else kind.removesuffix("s")
    return f"{one if len(names) == 1 else kind} {' '.join(names)}"


def _advice_lines(diagnosis: Diagnosis) -> list[str]:
    return [f"-> {line}" for line in diagnosis.advice] or ["no problems found"]
