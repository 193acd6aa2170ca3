"""Asking a service: the same methods as a guard, over HTTP.

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from holdfast.client._client import Client
from holdfast.client._connection import Connection as Connection
from holdfast.client._connection import error_of as error_of
from holdfast.client._connection import quoted as quoted

__all__ = ["Client"]
