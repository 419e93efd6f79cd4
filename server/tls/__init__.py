"""TLS on a listener: key stores, the context, the handshake, and the principal of a client certificate."""
