"""How large a request may be: decided while it arrives, before anything looks at it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class SizeLimit:
    """Refuses bodies above a limit, whatever length they say they have."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = 0

        async def counted() -> Message:
            nonlocal arrived
            message = await receive()
            arrived += len(message.get("body", b""))
            if arrived > self._most:
                raise HTTPException(413, f"A request may have at most {self._most:,} bytes.")
            return message

        await self._app(scope, counted, send)
