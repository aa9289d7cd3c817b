"""What a child finds around it: an environment made for it, and nothing of the server's own.

boto3 and every other AWS SDK read where foldb is from it, so that `boto3.resource("dynamodb")` in a trigger reaches the
server that called it. What else a trigger needs, an operator writes into `.env` in the folder of triggers.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...model.tables import REGION

_PLACES: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_KEY: Final = "foldb"


def environment(endpoint: str, *, scratch: Path, app_id: str, given: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a child.

    Args:
        endpoint: Where the server answers.
        scratch: Its own folder, for what need not stay.
        app_id: What its SDK says of itself with each request; the server knows by it which trigger writes.
        given: What the operator wants in it; it goes before all but `app_id`.
    """
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), *_PLACES)),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
        "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
        "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": endpoint,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        **given,
        "AWS_SDK_UA_APP_ID": app_id,
    }
