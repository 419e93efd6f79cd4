"""One module per API: `(image, request, context) -> Outcome`. Handlers use no bytes, no sockets and no clock."""
