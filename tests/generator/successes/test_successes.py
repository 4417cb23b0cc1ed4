from __future__ import annotations

import dataclasses
import inspect
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.generator.successes.generated.runtime import Stream
from tests.generator.successes.generated.shop.models import Change, Good, Reason
from tests.generator.successes.generated.shop.operations import (
    OPERATIONS,
    get_good,
    list_goods,
    put_good,
    remove_good,
    stream_changes,
)


async def no_changes() -> AsyncIterator[bytes]:
    for change in list[bytes]():
        yield change


def test_an_empty_success_is_named_by_its_reason_phrase_and_has_no_fields() -> None:
    answer = remove_good.NoContent()
    assert answer.status == 204
    assert dataclasses.fields(answer) == ()
    (entry,) = remove_good.OPERATION.answers
    assert (entry.response, entry.status, entry.media_type, entry.content) == (remove_good.NoContent, 204, None, "none")


def test_a_json_success_holds_its_model() -> None:
    answer = put_good.Ok(body=Good(name="tea"))
    assert msgspec.json.encode(answer.body) == b'{"name":"tea"}'
    assert answer.status == 200


def test_a_json_success_may_be_a_list_of_models() -> None:
    assert list_goods.Ok(body=[Good(name="tea")]).body[0].name == "tea"


def test_two_media_types_of_a_status_are_two_classes() -> None:
    entries = {entry.response: entry.media_type for entry in get_good.OPERATION.answers}
    assert entries == {get_good.OkJson: "application/json", get_good.OkYaml: "application/yaml"}
    assert get_good.OkJson.status == get_good.OkYaml.status == 200
    assert get_good.OkYaml(body="name: tea\n").body == "name: tea\n"


def test_a_request_tells_what_the_client_accepts_where_that_is_a_choice() -> None:
    assert get_good.OPERATION.accept
    assert get_good.Request(good="tea", accept="application/yaml", trace_id="0" * 32).accept == "application/yaml"
    assert get_good.Request(good="tea", accept=None, trace_id="0" * 32).accept is None
    others = [operation for operation in OPERATIONS if operation is not get_good.OPERATION]
    assert not any(operation.accept for operation in others)
    assert "accept" not in inspect.signature(put_good.Request).parameters


def test_headers_are_fields_and_only_the_optional_one_may_be_left_out() -> None:
    good = Good(name="tea")
    answer = put_good.Created(body=good, location="/goods/tea", x_revision=1, header_status="kept")
    assert answer.x_status is msgspec.UNSET
    entry = put_good.OPERATION.answers[1]
    assert entry.headers == (
        ("Location", "location"),
        ("X-Revision", "x_revision"),
        ("X-Status", "x_status"),
        ("Status", "header_status"),
    )
    with pytest.raises(TypeError, match="location"):
        put_good.Created(body=good, x_revision=1, header_status="kept")  # type: ignore[call-arg]


def test_a_stream_holds_its_chunks_and_the_header_of_one_value() -> None:
    chunks = no_changes()
    events: Stream[Change] = Stream(chunks)
    answer = stream_changes.Ok(events=events)
    assert answer.events.chunks is chunks
    assert answer.cache_control == "no-store"
    (entry,) = stream_changes.OPERATION.answers
    assert (entry.media_type, entry.content) == ("text/event-stream", "events")


def test_answers_and_requests_cannot_be_changed() -> None:
    answer = put_good.Ok(body=Good(name="tea"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.body = Good(name="coffee")  # type: ignore[misc]
    with pytest.raises(AttributeError):
        answer.body.name = "coffee"  # type: ignore[misc]


def test_a_body_of_two_media_types_is_a_model_or_text_and_says_which() -> None:
    body = put_good.OPERATION.body
    assert body is not None
    assert list(body.media_types) == ["application/json", "application/yaml"]
    assert body.media_types["application/yaml"] is None
    assert msgspec.convert({"name": "tea"}, body.model) == Good(name="tea")
    request = put_good.Request(
        good="tea", body="name: tea\n", raw_body=b"name: tea\n", content_type="application/yaml", trace_id="0" * 32
    )
    assert request.content_type == "application/yaml"


def test_a_body_that_is_not_required_may_be_absent() -> None:
    assert remove_good.OPERATION.body is not None
    assert not remove_good.OPERATION.body.required
    request = remove_good.Request(good="tea", trace_id="0" * 32)
    assert (request.body, request.raw_body) == (msgspec.UNSET, b"")
    assert remove_good.Request(good="tea", body=Reason(reason="sold"), raw_body=b"{}", trace_id="0" * 32).body


def test_the_operations_are_listed_in_the_order_of_the_document() -> None:
    assert [operation.id for operation in OPERATIONS] == [
        "getGood",
        "putGood",
        "removeGood",
        "listGoods",
        "streamChanges",
    ]
