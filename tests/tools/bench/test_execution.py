import sqlite3
from contextlib import closing
from pathlib import Path

from tools.bench import execution
from tools.bench.execution import ended, prepared
from tools.bench.servers import Server


def test_both_programs_have_one_folder_whose_package_is_of_the_bench(tmp_path: Path) -> None:
    with prepared(tmp_path / "execution") as (without, with_runs):
        assert without.folder == with_runs.folder
        switches = [each.environment["GATEHOUSE_EXECUTION_ENABLED"] for each in (without, with_runs)]
    assert switches == ["false", "true"]
    with closing(sqlite3.connect(without.database)) as connection:
        [[snapshot]] = connection.execute("SELECT snapshot FROM packages JOIN switches ON digest = package_digest")
    assert '"/told"' in str(snapshot)


def test_runs_are_counted_from_a_moment_until_another(tmp_path: Path) -> None:
    program = execution.receiver(tmp_path)
    with closing(sqlite3.connect(program.database)) as connection:
        connection.execute("CREATE TABLE runs (state TEXT, ended_at INTEGER)")
        rows = [("completed", 9), ("completed", 10), ("failed", 11), ("completed", 19), ("completed", 20)]
        connection.executemany("INSERT INTO runs VALUES (?, ?)", [*rows, ("running", None)])
        connection.commit()
    assert ended(Server(program=program, pid=0, first_answer=0.0), 10, 20) == 2
