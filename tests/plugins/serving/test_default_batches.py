"""By default, requests are combined if the graph shows that rows are independent."""

from __future__ import annotations

import logging

import pytest
from tests.plugins.serving.served_models import options_for, write_centered, write_line


def largest_batch(client):
    return client.get("/v2/models/m/config")[1]["max_batch_size"]


def test_independent_rows_are_batched(serve, tmp_path):
    assert largest_batch(serve(options_for(write_line(tmp_path / "m")))[1]) == 64


def test_rows_that_mix_are_not_batched_and_the_log_says_why(serve, tmp_path, caplog):
    with caplog.at_level(logging.INFO, "graphmill.serving"):
        client = serve(options_for(write_centered(tmp_path / "m")))[1]
    assert largest_batch(client) == 0
    (event,) = [one for one in caplog.records if one.message == "requests not batched"]
    assert event.fields["reason"] == "node 'Mean' (Mean) may combine rows"
    answer = client.post("/v1/models/m:predict", {"instances": [1.0, 3.0]})
    assert answer == (200, {"predictions": [-1.0, 1.0]})


@pytest.mark.parametrize(("batches", "rows"), [(True, 64), (False, 0)])
def test_options_override_the_proof(serve, tmp_path, batches, rows):
    model = write_centered(tmp_path / "m")
    assert largest_batch(serve(options_for(model, batches=batches))[1]) == rows
