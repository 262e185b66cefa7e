"""Requests to every server method, and seeded mutations of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.plugins.distributed.served_master import ARITHMETIC, COUNTER, MasterClient, graph_def

from graphmill import proto
from graphmill_plugins.distributed.wire.methods import MASTER_METHODS, WORKER_METHODS

if TYPE_CHECKING:
    import random

    from google.protobuf.message import Message

STRINGS = ("", "\0", "x" * 100_000, "/job:worker", ":0", "é/☃:7", "a;b;c;d;e", "^y", "..", "%s{}")
INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1)
HANDLES = ("session_handle", "graph_handle", "handle")
FLOATS = (0.0, -1.0, 1e300, float("inf"), float("nan"))


class Corpus:
    """Valid requests for the sessions and graphs of one server.

    Args:
        client: a client of the server.

    Attributes:
        requests: the requests of each method by its path, one or several.
    """

    def __init__(self, client: MasterClient) -> None:
        self._client = client
        self.requests: defaultdict[str, list[Message]] = defaultdict(list)
        self._add_master()
        self._add_worker()

    def _add(self, method: Any, **fields: Any) -> None:
        self.requests[method.path].append(method.request(**fields))

    def _add_master(self) -> None:
        client, methods = self._client, MASTER_METHODS
        handle = client.create(ARITHMETIC)
        counter = client.create(COUNTER)
        client.run(counter, targets=["init"])
        made = client.call(
            "MakeCallable",
            proto.MakeCallableRequest(
                session_handle=handle, options=proto.CallableOptions(feed=["x"], fetch=["y"])
            ),
        )
        feed = client.run_request(handle, ["y:0"], {"x:0": np.float32([1, 2])})
        self._add(methods["CreateSession"], graph_def=ARITHMETIC, config=_config())
        self._add(methods["CreateSession"], graph_def=COUNTER, target="grpc://127.0.0.1:1")
        more = graph_def(("z", "NoOp", [], {}))
        self._add(methods["ExtendSession"], session_handle=handle, graph_def=more)
        self.requests[methods["RunStep"].path].append(feed)
        body = client.run_request(
            counter, ["read:0"], store_errors_in_response_body=True, request_id=7
        )
        body.options.trace_level = 3
        self.requests[methods["RunStep"].path].append(body)
        self._add(methods["PartialRunSetup"], session_handle=handle, feed=["x:0"], fetch=["y:0"])
        options = proto.CallableOptions(feed=["x:0"], fetch=["y:0"])
        self._add(methods["MakeCallable"], session_handle=handle, options=options)
        values = [pair.tensor for pair in feed.feed]
        self._add(methods["RunCallable"], session_handle=handle, handle=made.handle, feed=values)
        self._add(methods["ReleaseCallable"], session_handle=handle, handle=99)
        self._add(methods["ListDevices"], session_handle=handle)
        self._add(methods["Reset"], container=["box"], device_filters=["/job:worker"])
        self._add(methods["CloseSession"], session_handle=client.create(ARITHMETIC))

    def _add_worker(self) -> None:
        methods = WORKER_METHODS
        status = self._call("GetStatus", proto.GetStatusRequest())
        device = status.device_attributes[0]
        created = proto.CreateWorkerSessionRequest(session_handle="s")
        self._call("CreateWorkerSession", created)
        part = proto.GraphDef()
        part.CopyFrom(COUNTER)
        for node in part.node:
            node.device = device.name
        register = proto.RegisterGraphRequest(
            session_handle="s",
            graph_def=part,
            create_worker_session_called=True,
            config_proto=_config(),
        )
        graph = self._call("RegisterGraph", register).graph_handle
        key = f"{device.name};{device.incarnation:016x};{device.name};edge;0:0"
        whole = {"create_worker_session_called": True, "session_handle": "s"}
        self._add(methods["GetStatus"])
        created.cluster_device_attributes.append(device)
        created.server_def.job_name = "worker"
        self.requests[methods["CreateWorkerSession"].path].append(created)
        self.requests[methods["RegisterGraph"].path].append(register)
        self._add(methods["RunGraph"], **whole, graph_handle=graph, step_id=1, request_id=5)
        run = methods["RunGraph"].request(
            **whole, graph_handle=graph, step_id=2, store_errors_in_response_body=True
        )
        run.exec_opts.record_timeline = True
        run.send.add(name=key)
        run.send[0].tensor.dtype = 1
        run.send[0].tensor.float_val.append(2)
        self.requests[methods["RunGraph"].path].append(run)
        self._add(methods["RecvTensor"], step_id=3, rendezvous_key=key, request_id=9)
        self._add(methods["CleanupGraph"], step_id=4)
        self._add(methods["CleanupAll"], container=["box"])
        self._add(methods["Logging"], enable_rpc_logging=True, fetch_step_id=[1, 2])
        self._add(methods["DeregisterGraph"], **whole, graph_handle="none")
        self._add(methods["DeleteWorkerSession"], session_handle="none")
        self._add_group(device)
        for name in ("Tracing", "RecvBuf", "GetStepSequence", "MarkRecvFinished"):
            self._add(methods[name])

    def _add_group(self, device: Any) -> None:
        """Add a group of one member, so that nobody waits."""
        group = {"group_key": 1, "group_size": 1, "device_type": "CPU"}
        complete = proto.CompleteGroupRequest(
            **group, device_attributes=device, exchange_protocol=1
        )
        self._call("CompleteGroup", complete)
        self.requests[WORKER_METHODS["CompleteGroup"].path].append(complete)
        self._add(
            WORKER_METHODS["CompleteInstance"],
            **group,
            name="Reduce",
            data_type=1,
            instance_key=2,
            device=device.name,
            incarnation=device.incarnation,
            instance="[2]",
        )

    def _call(self, name: str, request: Message) -> Any:
        method = WORKER_METHODS[name]
        data = self._client.raw(method.path, request.SerializeToString())
        return method.response.FromString(data)


def _config() -> proto.ConfigProto:
    config = proto.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=2000)
    config.graphmill.jit = "off"
    return config


def mutated(message: Message, random: random.Random) -> bytes:
    """Return the bytes of a mutated message."""
    kind = random.random()
    if kind < 0.1:
        return random.randbytes(random.choice((0, 1, 7, 100, 5000)))
    if kind < 0.4:
        return _spoiled_bytes(message.SerializeToString(), random)
    made = type(message)()
    made.CopyFrom(message)
    for _ in range(random.randint(1, 3)):
        _spoil_field(made, random)
    return made.SerializeToString()


def _spoiled_bytes(data: bytes, random: random.Random) -> bytes:
    if not data:
        return b"\xff"
    first, last = sorted(random.choices(range(len(data) + 1), k=2))
    kind = random.randrange(5)
    if kind == 0:
        return data[:first]
    if kind == 1:
        return data[:first] + data[last:]
    if kind == 2:
        return data[:last] + data[first:]
    if kind == 3:
        return data[:first] + random.randbytes(random.randint(1, 8)) + data[first:]
    spoiled = bytearray(data)
    for _ in range(random.randint(1, 4)):
        spoiled[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(spoiled)


def _spoil_field(message: Message, random: random.Random) -> None:
    """Change a field of a message, or of one within it."""
    fields = message.ListFields()
    if not fields or random.random() < 0.2:
        field = random.choice(message.DESCRIPTOR.fields) if message.DESCRIPTOR.fields else None
        value = None
    else:
        field, value = random.choice(fields)
    if field is None or (field.name in HANDLES and random.random() < 0.8):
        return  # without a session or a graph not much happens
    if field.message_type is not None:
        _spoil_message_field(message, field, value, random)
    elif random.random() < 0.2:
        message.ClearField(field.name)
    elif field.is_repeated:
        value = getattr(message, field.name)
        value.extend([_extreme(field, random)] * random.choice((1, 1, 3, 1000)))
    else:
        setattr(message, field.name, _extreme(field, random))


def _spoil_message_field(message: Any, field: Any, value: Any, random: random.Random) -> None:
    if random.random() < 0.2:
        message.ClearField(field.name)
        return
    if field.message_type.GetOptions().map_entry:
        found = list(value.values()) if value else []
        if found and hasattr(found[0], "ListFields"):
            _spoil_field(random.choice(found), random)
        return
    if not field.is_repeated:
        _spoil_field(getattr(message, field.name), random)
        getattr(message, field.name).SetInParent()
        return
    items = getattr(message, field.name)
    if not items:
        items.add()
    elif random.random() < 0.3:
        items.add().CopyFrom(random.choice(items))
    else:
        _spoil_field(random.choice(items), random)


def _extreme(field: Any, random: random.Random) -> Any:
    kinds = type(field)
    if field.cpp_type == kinds.CPPTYPE_STRING:
        text = random.choice(STRINGS)
        return text.encode() if field.type == kinds.TYPE_BYTES else text
    if field.cpp_type == kinds.CPPTYPE_BOOL:
        return bool(random.randrange(2))
    if field.cpp_type in (kinds.CPPTYPE_FLOAT, kinds.CPPTYPE_DOUBLE):
        return random.choice(FLOATS)
    if field.cpp_type == kinds.CPPTYPE_ENUM:
        return random.choice((0, 1, 2, 3, 7, 19, 101))
    low, high = {
        kinds.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
        kinds.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
        kinds.CPPTYPE_UINT32: (0, 2**32 - 1),
        kinds.CPPTYPE_UINT64: (0, 2**64 - 1),
    }[field.cpp_type]
    return min(max(random.choice(INTEGERS), low), high)
