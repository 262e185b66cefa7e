"""The conformance suites as tests, for `pytest --pyargs graphmill.testing.suite`.

Name the tested object: `--graphmill-device NPU`, `--graphmill-executor MINE`,
`--graphmill-pass fuse`, `--graphmill-transport link`, `--graphmill-plugin mine`.
`--graphmill-coverage` prints a report of the covered ops and clauses at the end.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphmill import proto
from graphmill.graph.device_name import parse_device_name
from graphmill.plugin.host import default_host
from graphmill.registry import Provenance
from graphmill.testing import conformance
from graphmill.testing.case import parse_cases
from graphmill.testing.conformance.plugins import stored_cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case


class TestDevice(conformance.DeviceTests):
    """The device that `--graphmill-device` names."""


class TestKernels(conformance.KernelTests):
    """Tests of the kernels of the device that `--graphmill-device` names."""


class TestTiers(conformance.TierTests):
    """Tests of plugin declarations on that device, in interpreted and compiled steps."""


class TestAllocator(conformance.AllocatorTests):
    """Tests of that device's allocator, if it has one of its own."""

    @pytest.fixture
    def allocator(self, graphmill_host: Host, graphmill_device: str) -> Iterator[Any]:
        """Yield the allocator of a device that no session owns."""
        name_parts = parse_device_name(graphmill_device)
        if name_parts.type is None:
            pytest.skip("no device is named: pass --graphmill-device")
        config = proto.ConfigProto(device_count={name_parts.type: (name_parts.id or 0) + 1})
        factory = graphmill_host.devices.get(name_parts.type)
        devices = factory.create_devices(config, "/job:localhost/replica:0/task:0")
        device_allocator = devices[name_parts.id or 0].allocator()
        if device_allocator is None or not device_allocator.stats().bytes_limit:
            pytest.skip("the device has no allocator of its own, or it has no limit")
        self.__dict__["limit"] = device_allocator.stats().bytes_limit
        yield device_allocator
        for device in devices:
            device.close()


class TestPass(conformance.PassTests):
    """The graph pass that `--graphmill-pass` names."""


class TestTransport(conformance.RendezvousTests):
    """The transport that `--graphmill-transport` names."""


class TestPlugin(conformance.PluginTests):
    """The kernels of the plugin that `--graphmill-plugin` names."""

    @classmethod
    def asked(cls, config: pytest.Config) -> list[Case]:
        """Return the stored cases of the plugin's ops, and the cases of `--graphmill-cases`."""
        name = str(config.getoption("--graphmill-plugin"))
        if not name:
            return []
        file = str(config.getoption("--graphmill-cases"))
        own = parse_cases(Path(file).read_text("utf-8"), Path(file).stem) if file else []
        return [*stored_cases(_ops_of(name), config), *own]

    @pytest.fixture(autouse=True)
    def name(self, request: pytest.FixtureRequest) -> str:
        """Return the plugin's name, and select its ops for the tests."""
        name = str(request.config.getoption("--graphmill-plugin"))
        if not name:
            pytest.skip("no plugin is named: pass --graphmill-plugin")
        self.__dict__["ops"] = _ops_of(name)
        return name

    def test_every_op_has_a_case(self, name: str, request: pytest.FixtureRequest) -> None:
        """Each op of the plugin has a case; otherwise it would not be tested."""
        covered = {case.op for case in self.asked(request.config)}
        missing = [op for op in _ops_of(name) if op not in covered]
        assert not missing, (
            f"plugin {name} has kernels for ops without a case: {', '.join(missing)}; write cases "
            "as in graphmill.testing.cases, and pass the file with --graphmill-cases"
        )


@cache
def _ops_of(name: str) -> tuple[str, ...]:
    """Return the ops that a plugin, or a distribution, has kernels for.

    Raises:
        UsageError: no plugin of that name has kernels.
    """
    host = default_host()
    ops: list[str] = []
    owners: set[str] = set()
    # Kernels of compilers' own ops have no OpDef in the host.
    for op in sorted({*host.kernels.ops()} & {*host.ops.names()}):
        for entry in host.kernels.registrations(host.ops.get(op)):
            if isinstance(entry.owner, Provenance):
                owners.add(entry.owner.plugin)
                if name in (entry.owner.plugin, entry.owner.distribution):
                    ops.append(op)
    if not ops:
        listed = ", ".join(sorted(owners))
        raise pytest.UsageError(
            f"no kernel belongs to a plugin {name!r}; the plugins with kernels are {listed}"
        )
    return tuple(dict.fromkeys(ops))


class TestExecutor(conformance.ExecutorTests):
    """The executor that `--graphmill-executor` names."""
