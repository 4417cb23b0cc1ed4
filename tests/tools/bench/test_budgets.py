from tools.bench.budgets import Budget


def test_a_budget_is_called_by_what_is_divided_by_what() -> None:
    assert Budget("gatehouse", "fastapi", 3, 5).name == "gatehouse/fastapi"
    assert Budget("gatehouse", "fastapi", 1, 1, figure="p99").name == "fastapi/gatehouse, p99"
