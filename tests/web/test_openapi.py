"""The OpenAPI document tells of every route, and of nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.operations.stage import shell
from tests.web.stage import Browser


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


async def test_the_document_covers_every_route(web: Browser) -> None:
    document = (await web.get("/api/openapi.json")).json
    assert document["openapi"] == "3.1.0"
    told = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    served = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method)
        for rule in web.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert told == served
    assert {path for path, _ in told if path.startswith(("/api/", "/v1/"))} >= {
        "/api/jobs",
        "/api/jobs/{job}/trigger",
        "/api/runs/batch",
        "/v1/scheduler/status",
    }


async def test_every_reference_leads_somewhere_and_operations_have_one_name_each(web: Browser) -> None:
    document = (await web.get("/api/openapi.json")).json
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    names = [item["operationId"] for path in document["paths"].values() for item in path.values()]
    assert len(names) == len(set(names))
    for item in (item for path in document["paths"].values() for item in path.values()):
        assert item["summary"]
        assert any(status.startswith("2") for status in item["responses"])


async def test_an_answer_has_the_fields_that_the_document_names(web: Browser) -> None:
    document = (await web.get("/api/openapi.json")).json
    made = await web.post("/api/jobs", shell("backup", schedule="0 9 * * *"))
    run = (await web.post("/api/jobs/backup/trigger")).json["run_id"]
    shown = await web.get(f"/api/runs/{run}")
    schemas = document["components"]["schemas"]
    assert made.json.keys() == schemas["Job"]["properties"].keys()
    assert shown.json.keys() == schemas["RunDetail"]["properties"].keys()
    assert set(schemas["JobFields"]["required"]) == {"name", "type"}
