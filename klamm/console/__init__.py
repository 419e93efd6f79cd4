"""Code that the commands share: options, values in messages, filters of lines, strict JSON."""
