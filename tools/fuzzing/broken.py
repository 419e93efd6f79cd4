"""The exception for a broken promise, which is what a fuzzer looks for."""


class Broken(Exception):
    """A broken promise. `promise` is the same for all inputs that break it in the same way."""

    def __init__(self, promise: str, detail: str = "") -> None:
        super().__init__(promise, detail)
        self.promise = promise
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.promise}: {self.detail}" if self.detail else self.promise
