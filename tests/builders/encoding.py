"""Base64, as Secrets hold their data."""

import base64


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
