"""Which transport a URL gets."""

import asyncio
import builtins
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.support.http_server import AcpServer, Asked, Reply, serving
from tests.support.real_time import in_real_time
from twofold.transport.endpoint import BadUrl, NotReached
from twofold.transport.http import StreamableHttp
from twofold.transport.remote import RemoteNotInstalled, open_remote
from twofold.transport.websocket import WebSocket


async def quiet(socket: ServerConnection) -> None:
    await socket.wait_closed()


@pytest.mark.parametrize("scheme", ["ws", "http"])
@in_real_time
async def test_a_server_that_upgrades_is_used_by_websocket(scheme: str) -> None:
    async with serve(quiet, "127.0.0.1", 0) as server:
        transport = await open_remote(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert isinstance(transport, WebSocket)
        await transport.close()


def refusing(status: int) -> AcpServer:
    server = AcpServer()

    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.send(status)

    server.on_get = refuse
    return server


@pytest.mark.parametrize("status", [200, 400, 404, 405, 406, 426, 501, 502])
@in_real_time
async def test_one_that_does_not_is_used_by_streamable_http(status: int) -> None:
    async with serving(refusing(status)) as port:
        transport = await open_remote(f"http://127.0.0.1:{port}")
        assert isinstance(transport, StreamableHttp)
        await transport.close()


@pytest.mark.parametrize(("scheme", "status"), [("ws", 426), ("http", 401), ("http", 308)])
@in_real_time
async def test_what_http_cannot_mend_is_an_error_at_once(scheme: str, status: int) -> None:
    server = refusing(status)
    async with serving(server) as port:
        with pytest.raises(NotReached) as caught:
            await open_remote(f"{scheme}://127.0.0.1:{port}")
    assert caught.value.status == status
    assert len(server.asked) == 1


@in_real_time
async def test_nothing_is_tried_for_a_url_that_cannot_be_used() -> None:
    with pytest.raises(BadUrl):
        await open_remote("http://example.com/acp", token="sesame")


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "twofold.transport.websocket":
            raise ModuleNotFoundError("no", name="websockets.asyncio")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RemoteNotInstalled, match=r"pip install 'twofold\[remote\]'") as caught:
        asyncio.run(open_remote("ws://localhost:1"))
    assert caught.value.package == "websockets"
