"""Client quotas in force: which quota applies to a client, and how much of it the client has used. No I/O, no clock.

What clients use is soft state, which a restart loses, as in Kafka. `klamm.broker.request_quotas` applies these to
requests, and `klamm.server` delays throttled clients.
"""
