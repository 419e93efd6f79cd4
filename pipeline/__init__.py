"""Analyses the history of a cluster with Spark: turns its metadata log and request log into tables and a report.

Logs of Klamm and of Apache Kafka's controller are read in the same way. This package does not import the controller.
Only the modules that need PySpark import it; `pip install klamm[pipeline]` installs it.
"""
