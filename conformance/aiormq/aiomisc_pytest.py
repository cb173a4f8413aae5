"""The fixtures of aiomisc's pytest plugin that aiormq's tests use, among them a TCP proxy that can be slow and break off."""
import asyncio
import contextlib
import inspect

import pytest


class TCPProxy:
    def __init__(self, host, port):
        self.target = (host, port)
        self.delays = [0, 0]            # in seconds before what the client, and what the server has sent goes on
        self.processors = [None, None]  # what is done to it
        self.writers = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.proxy_host, self.proxy_port = self.server.sockets[0].getsockname()
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.disconnect_all()

    async def disconnect_all(self):
        for writer in list(self.writers):
            writer.close()

    @contextlib.contextmanager
    def slowdown(self, read_delay=0, write_delay=0):
        self.delays = [write_delay, read_delay]
        try:
            yield
        finally:
            self.delays = [0, 0]

    def set_content_processors(self, of_client, of_server):
        self.processors = [of_client, of_server]

    async def serve(self, from_client, to_client):
        from_server, to_server = await asyncio.open_connection(*self.target)
        self.writers |= {to_client, to_server}
        await asyncio.gather(self.pump(0, from_client, to_server), self.pump(1, from_server, to_client))

    async def pump(self, side, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self.delays[side]:
                    await asyncio.sleep(self.delays[side])
                if self.processors[side]:
                    data = self.processors[side](data)
                    if inspect.isawaitable(data):
                        data = await data
                writer.write(data)
        writer.close()


@pytest.fixture
def loop(event_loop):
    return event_loop


@pytest.fixture
def tcp_proxy():
    return TCPProxy


@pytest.fixture
def localhost():
    return "127.0.0.1"
