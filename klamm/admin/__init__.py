"""The admin client: `klamm.AdminClient`, its types, and the connections to brokers behind it."""
