"""Client metrics (KIP-714): which metrics clients shall push, what each may send when, and what they pushed.

Source: Kafka's ClientMetricsManager and ClientMetricsInstance; OpenTelemetry's metrics.proto for the content of pushes.
"""
