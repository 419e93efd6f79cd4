"""One module per API: `(image, request, context) -> Outcome`. Handlers know no bytes, no sockets and no clock."""
