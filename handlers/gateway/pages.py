"""The plumbing outside the documents: /metrics, the documents themselves, and /docs, a Swagger UI for offline use."""

from __future__ import annotations

import importlib.util
import mimetypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import orjson

from handlers.gateway.answers import Rendered

Page: TypeAlias = Callable[[], Rendered]

_ASSETS: Final = ("swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "favicon-32x32.png")

_DOCS: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gatehouse API</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/swagger-ui-standalone-preset.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""

# The documents name the default ports; a trial goes to the address under which the page was opened.
_START: Final = """window.ui = SwaggerUIBundle({
  urls: %s,
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  layout: "StandaloneLayout",
  requestInterceptor: (request) => {
    const target = new URL(request.url, location.href);
    request.url = location.origin + target.pathname + target.search;
    return request;
  },
});
"""

# Everything comes from this server, as what it says it is; Swagger UI styles its elements in place.
_POLICY: Final = (
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
)


def document_pages(documents: Mapping[str, bytes]) -> dict[str, Page]:
    """Return the pages that serve authored documents, by API name, and the Swagger UI over them."""
    pages = {f"/openapi/{name}.json": _constant("application/json", content) for name, content in documents.items()}
    pages["/docs"] = _constant("text/html; charset=utf-8", _DOCS.encode())
    pages["/docs/start.js"] = _constant("text/javascript; charset=utf-8", _start(sorted(documents)))
    return pages | {f"/docs/{asset}": _asset(asset) for asset in _ASSETS}


def metrics_page(render: Callable[[], bytes]) -> Page:
    """Return the page that serves Prometheus' text exposition format."""
    return lambda: _page("text/plain; version=0.0.4; charset=utf-8", render())


def _start(names: Sequence[str]) -> bytes:
    urls = [{"name": name, "url": f"openapi/{name}.json"} for name in names]
    return (_START % orjson.dumps(urls).decode()).encode()


def _constant(media_type: str, content: bytes) -> Page:
    page = _page(media_type, content)
    return lambda: page


def _asset(name: str) -> Page:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return lambda: _page(media_type, _read_asset(name))


@cache
def _read_asset(name: str) -> bytes:
    spec = importlib.util.find_spec("drf_spectacular_sidecar")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("drf-spectacular-sidecar, which carries Swagger UI, is not installed")
    return (Path(spec.origin).parent / "static/drf_spectacular_sidecar/swagger-ui-dist" / name).read_bytes()


def _page(media_type: str, content: bytes) -> Rendered:
    length = str(len(content)).encode()
    return Rendered(200, [(b"content-type", media_type.encode()), (b"content-length", length), *_POLICY], content)
