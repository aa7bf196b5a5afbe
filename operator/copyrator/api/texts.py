"""What texts of specs take that many fields have: names, kinds, labels and keys."""

from __future__ import annotations

from typing import Final

from copyrator.api import syntax
from copyrator.api.schema import text

NAMESPACE: Final = text(syntax.namespace, most=63, pattern=syntax.LABEL)
OBJECT_NAME: Final = text(syntax.object_name, most=253, pattern=syntax.SUBDOMAIN)
KIND: Final = text(syntax.kind, most=63, pattern=syntax.KIND)
API_VERSION: Final = text(syntax.api_version, most=253, pattern=syntax.API_VERSION)
LABEL_KEY: Final = text(syntax.label_key, most=317)
LABEL_VALUE: Final = text(syntax.label_value, most=63, least=0, pattern=f"({syntax.QUALIFIED})?")
DATA_KEY: Final = text(syntax.data_key, most=253, pattern=syntax.DATA_KEY)
