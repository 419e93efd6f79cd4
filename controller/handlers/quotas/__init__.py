"""APIs about client quotas."""
