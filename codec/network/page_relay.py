"""The browser page of a stream that comes over a thin link: its packets go on over a WebSocket."""

import asyncio
from threading import Thread
from urllib.parse import urlsplit

from gsvc.codec.bitstream.container import PacketType
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.network import player_relay, player_server, video_receiver
from gsvc.codec.network.address import Address
from gsvc.codec.network.tcp_websocket import Broadcaster, Channel, end_all, run_channels


class PageRelay(player_relay.Relay):
    """Serves the page at http://host:port, and the stream at the next port. `run` it once.

    Each stream that begins anew ends all connections: pages connect again by themselves.
    """

    def __init__(self, address: str, settings: video_receiver.ReceiveSettings, page: str) -> None:
        """Raises ConfigError for a page without the host that browsers name, and for an address
        that cannot be asked for the picture at which a browser begins."""
        super().__init__(address, settings)
        try:
            parts = urlsplit(page)
            host, port = parts.hostname or "", parts.port or 0
        except ValueError:
            host, port = "", 0
        if not host or host in ("0.0.0.0", "::") or not 0 < port < 65535:
            raise ConfigError(f"{page}: write http://host:port, host as browsers name this machine")
        if not address.startswith("udp:"):
            raise ConfigError(f"{address}: a page is made of udp://@:port; gsvc serve takes ws://")
        self._host, self._port = host, port
        self._stream = Address("ws", host, port + 1, listens=True)
        self._broadcaster: Broadcaster | None = None
        self._has_begun = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def note(self) -> str:
        """How many browsers look on."""
        return f", {len(self._serving)} connected"

    async def run(self) -> None:
        """Serve what comes. Raises InputError where nothing can be received or served."""
        source = player_server.LiveSource(f"ws://{self._netloc}", lambda: self._receiver.late)
        with player_server.serving(source, self._host, self._port) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            tasks = [
                asyncio.create_task(run_channels(self._stream, self._handle)),
                asyncio.create_task(self._pass_on()),
            ]
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    await task
            finally:
                self.stop()
                await end_all(list(self._serving))  # else their server waits for them
                await end_all(tasks[:1])
                await asyncio.wait(tasks)
                server.shutdown()

    @property
    def _netloc(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._stream.port}"

    async def _pass_on(self) -> None:
        before: tuple[video_receiver.VideoReceiver, int] | None = None
        async for arrival in self._received(video_receiver.VideoReceiver.packets):
            now = self._receiver, arrival.stream
            if now != before or self._broadcaster is None:
                before = now
                if self._broadcaster is not None:  # before the first stream browsers wait
                    await end_all(list(self._serving))
                self._broadcaster = Broadcaster(arrival.header, self._receiver.ask_key)
                self._has_begun.set()
            if arrival.packet.type != PacketType.END:  # another stream may come
                self._broadcaster.send([arrival.packet])

    async def _serve(self, channel: Channel) -> None:
        await self._has_begun.wait()
        assert self._broadcaster is not None
        await self._broadcaster.handle(channel)

    async def _handle(self, channel: Channel) -> None:
        """Serve a browser until its stream ends."""
        task = asyncio.create_task(self._serve(channel))
        self._serving.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
            self._serving.discard(task)
