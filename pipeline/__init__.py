"""What happened in a cluster, on Spark: its metadata log and request log as tables, pictures and answers.

The log of Klamm and that of a real Apache Kafka controller are read alike. Nothing here imports the controller, and
PySpark is imported by the modules that need it alone: `pip install klamm[pipeline]` brings it.
"""
