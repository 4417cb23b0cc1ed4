from __future__ import annotations

from tests.tools.lint.rules import (
    test_clients,
    test_examples,
    test_form,
    test_operations,
    test_problems,
    test_schemas,
)
from tools.lint.rules import STAGES


def test_every_rule_has_a_sample_that_breaks_it() -> None:
    modules = (test_clients, test_examples, test_form, test_operations, test_problems, test_schemas)
    broken = {rule for module in modules for rule, _, _ in module.FAULTS}
    assert broken == {rule for stage in STAGES for rule in stage}
