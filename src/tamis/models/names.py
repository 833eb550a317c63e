"""What the embedders are called. Light: a server checks a name long before it loads a model."""

from typing import Final

from tamis.errors import BadSetting

DEFAULT_MODEL: Final = "granite"
QUICK_MODEL: Final = "hashing"  # takes no longer than looking a vector up
NO_MODEL: Final = "none"  # words only: no vectors are made or searched
MODEL_NAMES: Final = (DEFAULT_MODEL, "bge", QUICK_MODEL, NO_MODEL)


def check_name(name: str) -> str:
    if name not in MODEL_NAMES:
        raise BadSetting(f"there is no model {name!r}", hint=f"allowed: {', '.join(MODEL_NAMES)}")
    return name
