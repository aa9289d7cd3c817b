"""The environment of a worker: made for it, without variables of the server.

boto3 and every other AWS SDK read foldb's address from it, so that `boto3.resource("dynamodb")` in a trigger reaches
the server that called it. An operator adds variables in `.env` in the folder of triggers.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...model.tables import REGION

_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_KEY: Final = "foldb"


def environment(endpoint: str, *, scratch: Path, app_id: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a worker.

    Args:
        endpoint: URL of the server.
        scratch: The worker's own folder for temporary files.
        app_id: The application id that its SDK sends with each request; the server knows the trigger by it.
        given: The operator's variables; they override all others except `app_id`.
    """
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), *_PATH)),
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
