"""`python -m tools.executor --state DIR [--config FILE]`, as a server starts it."""

from tools.executor.child import main

main()
