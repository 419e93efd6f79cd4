"""A bare trio server: it cuts frames and answers each with the same bytes. The floor under every trio server.

    python -m bench.echo_server PORT ANSWER_BYTES

No decoding, no state, no nursery beyond trio's own: what Klamm needs beyond this is Klamm's.
"""

import os
import sys

import trio

SIZE_BYTES = 4


async def echo(stream: trio.SocketStream, answer: bytes) -> None:
    received = bytearray()
    while chunk := await stream.receive_some(65_536):
        received += chunk
        while len(received) >= SIZE_BYTES:
            end = SIZE_BYTES + int.from_bytes(received[:SIZE_BYTES], "big")
            if len(received) < end:
                break
            del received[:end]
            await stream.send_all(answer)


async def serve(port: int, answer_bytes: int) -> None:
    answer = answer_bytes.to_bytes(SIZE_BYTES, "big") + bytes(answer_bytes)

    async def serve_stream(stream: trio.SocketStream) -> None:
        await echo(stream, answer)

    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    os.write(1, f"bootstrap.servers=127.0.0.1:{port}\n".encode())
    await trio.serve_listeners(serve_stream, listeners)


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]), int(sys.argv[2]))
