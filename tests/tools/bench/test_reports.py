import json
from statistics import mean

import pytest

from handlers.gateway.times import epoch_milliseconds
from tools.bench.reports import report


@pytest.mark.parametrize("count", [500, 1])
def test_a_report_has_so_many_log_lines_and_is_the_same_every_time(count: int) -> None:
    events = json.loads(report(count))["events"]
    assert [event["type"] for event in events] == ["log"] * count
    assert report(count) == report(count)


def test_lines_are_of_about_a_hundred_characters_and_some_have_a_step_or_a_time() -> None:
    body = report(500)
    events = json.loads(body)["events"]
    assert 95 < mean(len(event["message"]) for event in events) < 120
    assert 70_000 < len(body) < 85_000
    assert 100 < sum("at" in event for event in events) < 300
    assert 100 < sum("step" in event for event in events) < 400
    assert all(epoch_milliseconds(event["at"]) for event in events if "at" in event)
