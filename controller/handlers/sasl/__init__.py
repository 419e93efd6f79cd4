"""The handlers of SaslHandshake and SaslAuthenticate for clients that are authenticated, or need not be."""
