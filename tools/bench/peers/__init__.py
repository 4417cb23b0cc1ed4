"""The same admission on FastAPI, and by the fastest means: yardsticks for the bench, and no part of Gatehouse."""
