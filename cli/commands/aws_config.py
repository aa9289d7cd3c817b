"""`foldb aws-config`: print settings that point AWS clients at a database.

eval "$(foldb aws-config --shell)"              the AWS CLI and every SDK, in this shell
foldb aws-config --python >> settings.py        keyword arguments for boto3
foldb aws-config --terraform > provider.tf
"""

import shlex
from typing import Annotated

import orjson
import typer

from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.session import Session
from ..lib.settings import DEFAULT_URL, Credentials

REGION = "us-east-1"


def aws_config(
    session: Session,
    shell: Annotated[
        bool,
        typer.Option("--shell", help='Print only exports for a shell: eval "$(foldb aws-config --shell)".'),
    ] = False,
    python: Annotated[
        bool, typer.Option("--python", help="Print only Python: boto3 clients for tables and streams.")
    ] = False,
    terraform: Annotated[
        bool, typer.Option("--terraform", help="Print only a provider block for Terraform.")
    ] = False,
) -> None:
    """The access key comes from --profile, FOLDB_ACCESS_KEY_ID or the AWS tools. A server without --keys accepts any.

    Evaluate the exports: eval "$(foldb aws-config --shell)"

    Example: foldb aws-config --shell
    """
    url, key, ca = session.url or DEFAULT_URL, session.settings.credentials, session.settings.ca
    _check_key(session)
    forms = {
        "shell": (shell, shell_form(url, key, None if ca is None else str(ca.resolve()))),
        "python": (python, python_form(url, key)),
        "terraform": (terraform, terraform_form(url, key)),
    }
    chosen = [text for is_chosen, text in forms.values() if is_chosen]
    if len(chosen) > 1:
        raise CommandError("--shell, --python and --terraform: choose one", ExitCode.USAGE)
    typer.echo("\n\n".join(chosen or [text for _, text in forms.values()]))


def _check_key(session: Session) -> None:
    """Check that the server accepts the key. A server that does not answer may start later.

    Raises:
        CommandError: The server refuses the key.
    """
    if session.url is None or session.settings.credentials != Credentials():
        return
    try:
        session.client.call("ListTables", {"Limit": 1})
    except RequestFailedError as error:
        raise CommandError(
            f"{session.client.url} checks signatures: set FOLDB_ACCESS_KEY_ID and FOLDB_SECRET_ACCESS_KEY, "
            "or name a profile with --profile",
            ExitCode.USAGE,
        ) from error
    except (CommandError, OSError):
        return


def shell_form(url: str, key: Credentials, ca: str | None = None) -> str:
    """Return exports that the AWS CLI and every SDK read."""
    variables = {
        "AWS_ENDPOINT_URL_DYNAMODB": url,
        "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": url,
        "AWS_ACCESS_KEY_ID": key.key_id,
        "AWS_SECRET_ACCESS_KEY": key.secret,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        **({} if ca is None else {"AWS_CA_BUNDLE": ca}),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    # A session token and a profile take precedence over the key above.
    return "\n".join(["# The AWS CLI and every SDK", *lines, "unset AWS_SESSION_TOKEN AWS_PROFILE"])


def python_form(url: str, key: Credentials) -> str:
    """Return Python code that creates boto3 clients."""
    return f"""\
# boto3
import boto3

foldb = {{
    "endpoint_url": {_quoted(url)},
    "region_name": "{REGION}",
    "aws_access_key_id": {_quoted(key.key_id)},
    "aws_secret_access_key": {_quoted(key.secret)},
}}
dynamodb = boto3.resource("dynamodb", **foldb)
streams = boto3.client("dynamodbstreams", **foldb)"""


def terraform_form(url: str, key: Credentials) -> str:
    """Return a provider block. It has no endpoint for streams, because Terraform reads none of their records."""
    return f"""\
# Terraform
provider "aws" {{
  region                      = "{REGION}"
  access_key                  = {_quoted(key.key_id)}
  secret_key                  = {_quoted(key.secret)}
  skip_credentials_validation = true
  skip_requesting_account_id  = true
  skip_metadata_api_check     = true
  endpoints {{
    dynamodb = {_quoted(url)}
  }}
}}"""


def greeting(url: str, location: str, *, has_keys: bool) -> str:
    """Return the text that a server prints when it is ready. Each command in it works as printed."""
    head = f"foldb serves {url}, {location}\n\n"
    # Not every system can connect to the wildcard address; every system can connect to loopback.
    url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    if has_keys:
        return (
            f"{head}# With a key of `foldb key create` in FOLDB_ACCESS_KEY_ID and FOLDB_SECRET_ACCESS_KEY:\n"
            f'eval "$(foldb aws-config --shell --db {url})" && aws dynamodb list-tables\n'
        )
    key = Credentials()
    return (
        f"{head}{python_form(url, key)}\n\n# AWS CLI\n"
        f"AWS_ACCESS_KEY_ID={key.key_id} AWS_SECRET_ACCESS_KEY={key.secret} AWS_DEFAULT_REGION={REGION} "
        f"aws dynamodb list-tables --endpoint-url {url}\n"
    )


def _quoted(text: str) -> str:
    """Return a string literal that is valid in Python and in Terraform."""
    return orjson.dumps(text).decode()
