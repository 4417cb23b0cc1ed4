from pathlib import Path

from tools.bench import admission
from tools.bench.admission import Admission
from tools.bench.servers import Server


def test_more_deliveries_are_prepared_than_can_be_expected(tmp_path: Path) -> None:
    program = admission.peer("limit", tmp_path / "limit")
    server = Server(program=program, pid=0, first_answer=0.0)
    script, url, _, file, size, count = Admission(tmp_path).arguments(server, 2, 10.0)
    assert script.endswith("deliver.lua")
    assert url == f"http://127.0.0.1:{program.port}"
    assert int(count) == 2 * admission.LEAST_RATE * admission.SPARE
    assert Path(file).stat().st_size == int(size) * int(count)
