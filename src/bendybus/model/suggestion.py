"""What was probably meant by a word that means nothing."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(wrong: str, right: Iterable[str]) -> str:
    """Say which of the right words was probably meant, or list them."""
    words = {word.lower(): word for word in right}
    close = get_close_matches(wrong.lower(), words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {words[close[0]]}?"
    return f"it may be {', '.join(sorted(words.values()))}" if words else "there are none"
