"""What a handler must not answer: each wrong line is a type error, and its ignore is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar, Literal

from generated.coordinator.models import Run
from generated.coordinator.operations import admit_event, get_run, start_run
from generated.installer.models import Config, InstallEvent
from generated.installer.operations import get_config, stream_install_events
from generated.runtime import Stream

RUN_ID = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"


async def undocumented_status(_: admit_event.Request) -> admit_event.Response:
    return admit_event.Created(x_coordinator_run_id=RUN_ID)  # type: ignore[attr-defined, no-any-return]


def forged_status() -> admit_event.Response:
    return admit_event.NoContent(status=202, x_coordinator_run_id=RUN_ID)  # type: ignore[call-arg]


class Forged(admit_event.NoContent):
    status: ClassVar[Literal[202]] = 202  # type: ignore[assignment]


def changed_status(answer: admit_event.NoContent) -> None:
    answer.status = 202  # type: ignore[misc, assignment]


async def answer_of_another_operation(_: admit_event.Request, run: Run) -> admit_event.Response:
    return get_run.Ok(body=run)  # type: ignore[return-value]


async def equal_answer_of_another_operation(_: start_run.Request, run: Run) -> start_run.Response:
    return get_run.Ok(body=run)  # type: ignore[return-value]


async def forgotten_return(_: admit_event.Request) -> admit_event.Response:  # type: ignore[return]
    admit_event.NoContent(x_coordinator_run_id=RUN_ID)


async def nothing(_: admit_event.Request) -> admit_event.Response:
    return None  # type: ignore[return-value]


async def bare_status_and_headers(_: admit_event.Request) -> admit_event.Response:
    return 204, {"X-Coordinator-Run-Id": RUN_ID}  # type: ignore[return-value]


async def missing_required_header(_: admit_event.Request) -> admit_event.Response:
    return admit_event.NoContent()  # type: ignore[call-arg]


async def missing_location(_: start_run.Request, run: Run) -> start_run.Response:
    return start_run.Created(body=run, x_coordinator_run_id=RUN_ID)  # type: ignore[call-arg]


async def undocumented_header(_: get_run.Request, run: Run) -> get_run.Response:
    return get_run.Ok(body=run, location="/v1/runs")  # type: ignore[call-arg]


async def body_without_a_model(_: get_run.Request, run: dict[str, Any]) -> get_run.Response:
    return get_run.Ok(body=run)  # type: ignore[arg-type]


async def undocumented_parameter(request: get_run.Request) -> str:
    return request.limit  # type: ignore[attr-defined, no-any-return]


async def model_as_text(_: get_config.Request, config: Config) -> get_config.Response:
    return get_config.OkYaml(body=config)  # type: ignore[arg-type]


def events_that_are_not_encoded(events: AsyncIterator[InstallEvent]) -> stream_install_events.Response:
    return stream_install_events.Ok(events=Stream(events))  # type: ignore[arg-type]


def stream_of_something_else(events: Stream[Config]) -> stream_install_events.Response:
    return stream_install_events.Ok(events=events)  # type: ignore[arg-type]
