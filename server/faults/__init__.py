"""Simulated faults: rules that a user adds, which delay, refuse, damage or only observe the requests that they match.

Nothing here does I/O or knows tasks: `interceptor` gives the request path what the rules decide, before a request is
dispatched and when its answer is there. Handlers know nothing of faults.
"""
