"""The definitions of configs: tables, types, values and orders, independent of what is set."""
