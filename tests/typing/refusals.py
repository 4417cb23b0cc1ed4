"""What a handler must not raise: each wrong line is a type error, and its ignore is needed."""

from __future__ import annotations

from generated.coordinator.operations import admit_event, get_run
from generated.installer.operations import get_install


def problem_of_another_operation() -> None:
    raise admit_event.RunNotVisible("The run is not visible.")  # type: ignore[attr-defined]


def undocumented_problem() -> None:
    raise get_run.RequestNotFound("There is nothing here.")  # type: ignore[attr-defined]


def missing_header_of_a_problem() -> None:
    raise admit_event.RequestMethodNotAllowed("The path does not have this method.")  # type: ignore[call-arg]


def header_of_another_problem() -> None:
    raise admit_event.AdmissionHeld("Admission is held.", retry_after=5)  # type: ignore[call-arg]


def header_that_is_no_number() -> None:
    raise get_install.InstallCodeLocked("Wait.", retry_after="8")  # type: ignore[arg-type]


def no_detail() -> None:
    raise admit_event.AdmissionHeld  # type: ignore[call-arg]


BY_NAME: dict[str, type[admit_event.Problems]] = {
    "held": admit_event.AdmissionHeld,
    "not-visible": get_run.RunNotVisible,  # type: ignore[dict-item]
}
