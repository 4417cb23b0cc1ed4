"""A receiver that answers every request at once with the same JSON: `python -m tools.bench.receiver PORT`."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Final, cast

import httptools
import uvloop

from tools.bench.servers import HOST

ANSWER: Final = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"received":true}'


class Answering(asyncio.Protocol):
    """One connection; what cannot be understood ends it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read requests."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_complete(self) -> None:
        """Answer a request that has come to its end."""
        self._transport.write(ANSWER)


async def serve(port: int) -> None:
    """Answer on a port of 127.0.0.1 until the task is cancelled."""
    server = await asyncio.get_running_loop().create_server(Answering, HOST, port)
    await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Serve on the port that is the argument, until a signal ends the process."""
    uvloop.run(serve(int(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
