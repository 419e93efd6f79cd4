"""APIs about access control entries: who may do what."""
