"""The page at the control address in a real browser: its checks, its pictures and its figures (docs/page.md)."""
