"""The plumbing that every API shares: from a connection to a typed request, and from a typed answer to bytes."""

import warnings

# connexion imports starlette's test client at start, which tells whoever imports it that it wants another HTTP client.
warnings.filterwarnings("ignore", message="Using `httpx` with `starlette.testclient` is deprecated")
