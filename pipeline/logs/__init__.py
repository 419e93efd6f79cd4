"""The files that controllers leave behind, and what they hold: no Spark here."""
