"""Scenarios: a package's own tests, carried out on a virtual clock against fake replies by the code that executes."""
