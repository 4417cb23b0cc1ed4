"""An HTTP client for the coordinator's operations, whose problems end a command."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

import httpx
import typer
from pydantic_core import PydanticCustomError

from tools.commands.folder import address, opened, operator_token
from tools.commands.terminal import RefusedError, UnreachableError
from tools.settings import LOOPBACK, Bind

SECONDS: Final = 30.0


def checked_url(url: str | None) -> str | None:
    """Refuse what is no URL of a server, for an option or argument."""
    try:
        usable = url is None or (urlsplit(url).scheme in ("http", "https") and httpx.URL(url).host != "")
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise typer.BadParameter("must be http://HOST:PORT or https://HOST:PORT")
    return url


def local(refusal: str) -> Callable[[str], str]:
    """Return what refuses, for an option HOST:PORT, an address that others than this machine reach."""

    def checked(text: str) -> str:
        try:
            place = Bind.parse(text)
        except PydanticCustomError as error:
            raise typer.BadParameter(error.message()) from None
        if not LOOPBACK.fullmatch(place.host):
            raise typer.BadParameter(refusal)
        return text

    return checked


def _confidential(url: str | None) -> str | None:
    parts = None if checked_url(url) is None else httpx.URL(str(url))
    if parts is not None and parts.scheme == "http" and not LOOPBACK.fullmatch(parts.host):
        raise typer.BadParameter("must be https://HOST:PORT: the code would go over the network as it is")
    return url


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", callback=checked_url, help="The server, where not the one of the state folder."
    ),
]
ConfidentialUrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", callback=_confidential, help="The machine, where not the one of the state folder."
    ),
]


def operator(state: Path, config: Path | None, url: str | None) -> Client:
    """Make the client that calls a state folder's server with its operator's token."""
    folder, settings = opened(state, config)
    return Client(url or address(folder, settings, "control"), operator_token(folder))


class Client:
    """Talks to one server, with a token or code where it has one; `context` decides which servers are believed."""

    def __init__(self, url: str, token: str | None = None, context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=url,
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            timeout=SECONDS,
            verify=(context or ssl.create_default_context()) if url.startswith("https:") else False,
            # The environment's proxy is the way to the internet; here it would be given the operator's token.
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, method: str, target: str, **options: Any) -> httpx.Response:
        """Send one request and return whatever is answered; UnreachableError where nothing is that can be read."""
        try:
            return self._http.request(method, target, **options)
        except httpx.RequestError as error:
            raise self._unreachable(error) from None

    @contextlib.contextmanager
    def streamed(self, target: str, headers: Mapping[str, str], silence: float) -> Iterator[httpx.Response]:
        """Send a GET whose answer is read as it comes, and may be silent for so many seconds.

        UnreachableError where it does not come, or ends before its end.
        """
        timeout = httpx.Timeout(SECONDS, read=silence)
        try:
            with self._http.stream("GET", target, headers=headers, timeout=timeout) as response:
                yield response
        except httpx.RequestError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: httpx.RequestError) -> UnreachableError:
        return UnreachableError(f"{self.url} does not answer: {str(error) or type(error).__name__}")

    def ask(self, method: str, target: str, **options: Any) -> Any:
        """Send one request and return the JSON of its success; RefusedError where it is answered by anything else."""
        response = self.send(method, target, **options)
        body = _json(response)
        if not response.is_success or body is None:
            raise refusal(response)
        return body


def refusal(response: httpx.Response) -> RefusedError:
    """Make the fault that tells of an answer which is no success, by its problem where it has one (RFC 9457)."""
    problem = _json(response)
    if not isinstance(problem, dict) or "title" not in problem:
        detail = f"the server answered {response.status_code} without a problem"
        return RefusedError(detail, {"error": "answer", "status": response.status_code, "detail": detail})
    trace = problem.get("traceId") or problem.get("requestId")
    lines = [f"{problem.get('code')} ({response.status_code}): {problem['title']}", f"  {problem.get('detail')}"]
    lines += [f"  {_fault(error)}" for error in _objects(problem.get("errors"))]
    if "Retry-After" in response.headers:
        lines.append(f"  try again in {response.headers['Retry-After']} s")
    return RefusedError("\n".join([*lines, f"  trace id {trace}"]), problem)


def _fault(error: Mapping[str, Any]) -> str:
    # Where no field is at fault it is the whole.
    field, message = error.get("field"), error.get("message")
    return f"{field}: {message}" if field else f"{message}"


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _json(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None
