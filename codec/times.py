"""Times as people write them: 0:07.6, 1:02:03."""


def shown_time(seconds: float) -> str:
    """Minutes and seconds, or hours too, with tenths where they are not 0: "0:07.6", "1:02:03"."""
    tenths = round(10 * seconds)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    begin = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{begin}:{rest // 10:02d}" + (f".{rest % 10}" if rest % 10 else "")


def parsed_time(text: str) -> float:
    """Seconds from 90, 1:30, 1:30.5 or 0:01:30. Raises ValueError for anything else."""
    *before, last = text.split(":")
    if len(before) > 2 or (before and (last[:1] in "+-" or float(last) >= 60)):
        raise ValueError(f"{text!r} is no time")
    seconds = float(last)
    for power, part in enumerate(reversed(before), 1):
        if not part.isdecimal():
            raise ValueError(f"{text!r} is no time")
        seconds += 60**power * int(part)
    return seconds
