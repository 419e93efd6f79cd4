"""What the commands share: options, bounded texts, filters of lines, strict JSON."""
