"""What texts of specs take that many fields have: names, kinds, labels and keys."""

from __future__ import annotations

from typing import Final

from copyrator.api.schema import text
from copyrator.api.syntax import (
    API_VERSION_PATTERN,
    DATA_KEY_PATTERN,
    KIND_PATTERN,
    LABEL,
    QUALIFIED,
    SUBDOMAIN,
    check_api_version,
    check_data_key,
    check_kind,
    check_label_key,
    check_label_value,
    check_namespace,
    check_object_name,
)

NAMESPACE: Final = text(check_namespace, most=63, pattern=LABEL)
OBJECT_NAME: Final = text(check_object_name, most=253, pattern=SUBDOMAIN)
KIND: Final = text(check_kind, most=63, pattern=KIND_PATTERN)
API_VERSION: Final = text(check_api_version, most=253, pattern=API_VERSION_PATTERN)
LABEL_KEY: Final = text(check_label_key, most=317)
LABEL_VALUE: Final = text(check_label_value, most=63, least=0, pattern=f"({QUALIFIED})?")
DATA_KEY: Final = text(check_data_key, most=253, pattern=DATA_KEY_PATTERN)
