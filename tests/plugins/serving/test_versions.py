"""Versions of models: which are served, and how one replaces another."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from dataclasses import replace

import pytest
from tests.plugins.serving.served_models import (
    TIMEOUT,
    Client,
    options_for,
    write_line,
    write_waiting,
)

from graphmill import proto
from graphmill.errors import InvalidArgumentError, NotFoundError, OpError, UnimplementedError
from graphmill.ops.tensor_proto import numpy_to_tensor_proto
from graphmill_plugins.serving.models.model_settings import (
    ModelSettings,
    VersionPolicy,
    read_config,
    settings_of_path,
)
from graphmill_plugins.serving.models.model_version import ModelVersion, State

PREDICT = "/v1/models/m:predict"
X = {"instances": [1.0]}


def update(server):
    """Make a server read its folders and its configuration now."""
    manager = server._core.manager

    async def look():
        await manager._reread_config()
        await manager.update()

    asyncio.run_coroutine_threadsafe(look(), server._loop).result()


def states(client, name="m"):
    versions = client.get(f"/v1/models/{name}")[1]["model_version_status"]
    return {int(one["version"]): one["state"] for one in versions}


def write_config(path, *models):
    blocks = [
        f'config {{ name: "{name}" base_path: "{folder}" model_platform: "tensorflow" {more} }}'
        for name, folder, more in models
    ]
    path.write_text(f"model_config_list {{ {' '.join(blocks)} }}")
    return path


def test_a_new_version_replaces_the_one_before(serve, tmp_path):
    write_line(tmp_path / "m" / "1", 1.0)
    server, client = serve(options_for(tmp_path / "m"))
    assert client.post(PREDICT, X)[1] == {"predictions": [3.0]}
    write_line(tmp_path / "m" / "2", 2.0)
    update(server)
    assert client.post(PREDICT, X)[1] == {"predictions": [4.0]}
    assert states(client)[2] == "AVAILABLE"
    assert client.post("/v1/models/m/versions/1:predict", X)[0] == 404


def test_a_version_whose_model_is_removed_while_it_is_loaded_is_unloaded(
    serve, tmp_path, monkeypatch
):
    write_line(tmp_path / "m" / "1")
    other = ModelSettings("n", str(write_line(tmp_path / "n")))
    server, _ = serve(options_for(tmp_path / "m"))
    manager, load = server._core.manager, ModelVersion.load
    begun, released = threading.Event(), threading.Event()

    def load_slowly(version):
        begun.set()
        assert released.wait(TIMEOUT)
        return load(version)

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, server._loop)

    async def wait_for_unloading():
        await asyncio.gather(*manager._unloading)

    write_line(tmp_path / "m" / "2")
    monkeypatch.setattr(ModelVersion, "load", load_slowly)
    updated = run(manager.update())
    assert begun.wait(TIMEOUT)
    versions = manager._models["m"].versions
    reloaded = run(manager.reload([other]))
    run(asyncio.sleep(0)).result(TIMEOUT)  # the reload has begun
    released.set()
    updated.result(TIMEOUT)
    reloaded.result(TIMEOUT)
    run(wait_for_unloading()).result(TIMEOUT)
    assert [version.state for version in versions.values()] == [State.END] * 2


@contextlib.contextmanager
def asking(server):
    """Send requests from four threads; the value is the list of the answers."""
    answers, stop = [], threading.Event()

    def ask():
        own = Client(server)
        while not stop.is_set():
            answers.append(own.post(PREDICT, X))
        own.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_no_request_is_lost_while_versions_are_swapped(serve, tmp_path):
    write_line(tmp_path / "m" / "1", 1.0)
    server, client = serve(options_for(tmp_path / "m"))
    with asking(server) as answers:
        for number in range(2, 6):
            write_line(tmp_path / "m" / str(number), float(number))
            update(server)
    assert {status for status, _ in answers} == {200}
    # Not the last answer of those: version 4 may have begun it before the last swap.
    assert client.post(PREDICT, X)[1] == {"predictions": [7.0]}


def test_no_request_is_lost_while_versions_break_and_return(serve, tmp_path):
    folder = tmp_path / "m"
    write_line(folder / "1", 1.0)
    server, client = serve(options_for(folder))
    expected = []

    def answered():
        update(server)
        expected.append(client.post(PREDICT, X)[1]["predictions"][0])

    with asking(server) as answers:
        (folder / "2").mkdir()  # a folder that is being written
        answered()
        (folder / "2" / "saved_model.pb").write_bytes(b"\xff" * 100)
        answered()
        shutil.rmtree(folder / "2")
        answered()
        write_line(folder / "3", 3.0)
        answered()
        (folder / "3" / "saved_model.pb").write_bytes(b"")  # of the version that is served
        answered()
        shutil.rmtree(folder / "3")
        answered()
        folder.rename(tmp_path / "gone")
        answered()
        (tmp_path / "gone").rename(folder)
        write_line(folder / "3", 4.0)
        answered()
    assert {status for status, _ in answers} == {200}
    assert {document["predictions"][0] for _, document in answers} <= {3.0, 5.0, 6.0}
    assert expected == [3.0, 3.0, 3.0, 5.0, 5.0, 3.0, 3.0, 6.0]


def test_a_version_finishes_its_requests_before_it_is_unloaded(serve, tmp_path):
    write_waiting(tmp_path / "m" / "1")
    server, client = serve(options_for(tmp_path / "m"))
    other = Client(server)
    results = []
    thread = threading.Thread(target=lambda: results.append(other.post(PREDICT, X)))
    thread.start()
    while "graphmill_serving_requests_in_flight 2" not in client.text("GET", "/metrics")[1]:
        pass
    (version,) = server._core.manager.versions()
    write_line(tmp_path / "m" / "2", 2.0)
    update(server)
    assert client.post(PREDICT, X)[1] == {"predictions": [4.0]}
    assert (states(client), results) == ({1: "UNLOADING", 2: "AVAILABLE"}, [])
    feed = version.signature("feed")
    feed.run(feed.convert({"x": [1.0]}), ("y",))
    thread.join()
    assert results == [(200, {"predictions": [2.0]})]
    other.close()


def test_a_version_that_cannot_be_loaded_leaves_the_one_before(serve, tmp_path):
    write_line(tmp_path / "m" / "1", 1.0)
    server, client = serve(options_for(tmp_path / "m"))
    (tmp_path / "m" / "2").mkdir()
    (tmp_path / "m" / "2" / "saved_model.pb").write_bytes(b"\xff" * 100)
    update(server)
    assert client.post(PREDICT, X)[1] == {"predictions": [3.0]}
    status = client.get("/v1/models/m/versions/2")[1]["model_version_status"][0]
    assert status["state"] == "END"
    assert status["status"]["error_code"] != "OK"
    shutil.rmtree(tmp_path / "m" / "2")
    write_line(tmp_path / "m" / "2", 2.0)
    server._core.manager._models["m"].versions[2].retry_at = 0
    update(server)
    assert client.post(PREDICT, X)[1] == {"predictions": [4.0]}


def test_versions_are_served_after_their_folder_disappears(serve, tmp_path):
    write_line(tmp_path / "m" / "1", 1.0)
    server, client = serve(options_for(tmp_path / "m"))
    (tmp_path / "m").rename(tmp_path / "gone")
    update(server)
    assert client.post(PREDICT, X)[1] == {"predictions": [3.0]}


def test_a_model_that_fails_does_not_stop_others(serve, tmp_path):
    good = ModelSettings("m", str(write_line(tmp_path / "m")))
    bad = ModelSettings("bad", str(tmp_path / "nowhere"))
    _, client = serve(replace(options_for(tmp_path), models=(bad, good)))
    assert client.post(PREDICT, X)[0] == 200
    status, document = client.post("/v1/models/bad:predict", X)
    assert (status, "does not exist" in document["error"]) == (404, True)
    assert client.get("/v2/health/ready") == (503, {"ready": False})


def test_no_model_at_all_is_an_error(serve, tmp_path):
    with pytest.raises(NotFoundError, match="does not exist; expected one with"):
        serve(options_for(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(OpError, match="has no version to serve"):
        serve(options_for(tmp_path / "empty"))


def test_a_configuration_file_selects_versions_and_labels(serve, tmp_path):
    for number in (1, 2, 3):
        write_line(tmp_path / "m" / str(number), float(number))
    policy = "model_version_policy { specific { versions: 1 versions: 3 } }"
    labels = 'version_labels { key: "stable" value: 1 } version_labels { key: "new" value: 3 }'
    path = write_config(tmp_path / "config", ("m", tmp_path / "m", f"{policy} {labels}"))
    options = replace(options_for(tmp_path), models=(), config_file=str(path))
    server, client = serve(options)
    assert states(client) == {1: "AVAILABLE", 3: "AVAILABLE"}
    assert client.post("/v1/models/m/labels/stable:predict", X)[1] == {"predictions": [3.0]}
    assert client.post("/v1/models/m/labels/new:predict", X)[1] == {"predictions": [5.0]}
    write_line(tmp_path / "n" / "1")
    everything = "model_version_policy { all {} }"
    write_config(path, ("m", tmp_path / "m", everything), ("n", tmp_path / "n", ""))
    update(server)
    assert states(client) == dict.fromkeys((1, 2, 3), "AVAILABLE")
    assert states(client, "n") == {1: "AVAILABLE"}
    path.write_text("model_config_list {")
    update(server)
    assert client.post(PREDICT, X)[0] == 200
    write_config(path, ("n", tmp_path / "n", ""))
    update(server)
    assert client.post(PREDICT, X)[0] == 404


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("model_config_list {", InvalidArgumentError, "not a ModelServerConfig"),
        ("nonsense: 1", InvalidArgumentError, "nonsense"),
        ("\udc80", InvalidArgumentError, "not a ModelServerConfig"),
        ('model_config_list { config { base_path: "/m" } }', InvalidArgumentError, "model name"),
        ('model_config_list { config { name: "m" } }', InvalidArgumentError, "no base_path"),
        ('model_config_list { config { name: "a/b" base_path: "m" } }', InvalidArgumentError, "/"),
        (
            'model_config_list { config { name: "m" base_path: "/m" model_platform: "onnx" } }',
            UnimplementedError,
            "platform 'onnx'",
        ),
        (
            'model_config_list { config { name: "m" base_path: "/m" logging_config {} } }',
            UnimplementedError,
            "logging_config",
        ),
        (
            'model_config_list { config { name: "m" base_path: "/" } config { name: "m" } }',
            InvalidArgumentError,
            "two models with the name 'm'; rename one",
        ),
        ("custom_model_config {}", UnimplementedError, "custom_model_config"),
    ],
)
def test_malformed_configurations_are_refused(tmp_path, text, error, message):
    path = tmp_path / "config"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(error, match=message):
        read_config(str(path))


def test_versions_that_a_policy_selects():
    assert VersionPolicy().select([3, 1, 2]) == [3]
    assert VersionPolicy(latest=2).select([3, 1, 2]) == [2, 3]
    assert VersionPolicy(latest=0).select([3, 1, 2]) == [1, 2, 3]
    assert VersionPolicy(specific=(1, 9)).select([3, 1, 2]) == [1]


def test_settings_follow_from_a_path(tmp_path):
    write_line(tmp_path / "half" / "7")
    base = settings_of_path(tmp_path / "half")
    assert (base.name, base.find_versions()) == ("half", {7: str(tmp_path / "half" / "7")})
    single = settings_of_path(tmp_path / "half" / "7" / "saved_model.pb")
    assert (single.name, list(single.find_versions())) == ("half", [7])
    with pytest.raises(NotFoundError, match="there is no folder"):
        settings_of_path(tmp_path / "other")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="is a file"):
        settings_of_path(tmp_path / "file")


def warmup_log(value, signature="serving_default"):
    log = proto.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = signature
    request.inputs["x"].CopyFrom(numpy_to_tensor_proto(value, None))
    return log


def test_warm_up_requests_run_before_a_version_is_served(serve, tmp_path, caplog):
    import numpy as np

    caplog.set_level("INFO", "graphmill.serving")
    write_line(tmp_path / "m", warmup=[warmup_log(np.zeros(3, np.float32), "both")] * 2)
    serve(options_for(tmp_path / "m"))
    (fields,) = [r.fields for r in caplog.records if r.message == "model loaded"]
    assert fields["warmup_requests"] == 2


def test_a_warm_up_request_that_fails_is_reported(serve, tmp_path):
    import numpy as np

    write_line(tmp_path / "m", warmup=[warmup_log(np.zeros(3, np.float32), "none")])
    with pytest.raises(OpError, match="not found") as caught:
        serve(options_for(tmp_path / "m"))
    assert "in warm-up request 0" in caught.value.__notes__[0]
    write_line(tmp_path / "n", warmup=[proto.PredictionLog(session_run_log=b"")])
    with pytest.raises(UnimplementedError, match="session_run_log"):
        serve(options_for(tmp_path / "n"))


def test_damaged_warm_up_requests_are_reported(serve, tmp_path):
    import numpy as np

    write_line(tmp_path / "m", warmup=[warmup_log(np.zeros(3, np.float32))])
    path = tmp_path / "m" / "assets.extra" / "tf_serving_warmup_requests"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(OpError):
        serve(options_for(tmp_path / "m"))
