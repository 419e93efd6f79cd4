"""Small files that a user names: each is read up to a stated limit, and refused with one line if it cannot be read."""

from pathlib import Path


class UnreadableFile(Exception):
    """The file cannot be read, or is larger than its limit. The text is the reason, without the path."""


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The content of a file of at most `max_bytes`. No more than one byte beyond the limit is read. Raises
    `UnreadableFile`."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UnreadableFile(error.strerror or str(error)) from None
    except ValueError as error:  # the path has a zero byte
        raise UnreadableFile(str(error)) from None
    if len(content) > max_bytes:
        raise UnreadableFile(f"is larger than {max_bytes} bytes")
    return content
