"""What a service keeps for its owner: datasets with their policies and epochs, boards, gates, people with
their roles, and copies of all of it. It does not use HTTP.

Users take these names from :mod:`holdfast.server`.
"""

from holdfast.registry._archives import ArchiveError as ArchiveError
from holdfast.registry._archives import back_up as back_up
from holdfast.registry._archives import restore as restore
from holdfast.registry._boards import GivenResults as GivenResults
from holdfast.registry._boards import Received as Received
from holdfast.registry._datasets import Dataset as Dataset
from holdfast.registry._people import ROUTES as ROUTES
from holdfast.registry._people import Forbidden as Forbidden
from holdfast.registry._people import Grant as Grant
from holdfast.registry._people import Person as Person
from holdfast.registry._people import Refused as Refused
from holdfast.registry._people import Tokens as Tokens
from holdfast.registry._people import rule_of as rule_of
from holdfast.registry._policy import RATE as RATE
from holdfast.registry._policy import SECONDS as SECONDS
from holdfast.registry._policy import Archived as Archived
from holdfast.registry._policy import Arrived as Arrived
from holdfast.registry._policy import Deleted as Deleted
from holdfast.registry._policy import Overtaken as Overtaken
from holdfast.registry._policy import Policy as Policy
from holdfast.registry._policy import TooMany as TooMany
from holdfast.registry._policy import standing as standing
from holdfast.registry._policy import terms_of as terms_of
from holdfast.registry._service import Service as Service
from holdfast.registry._sign_in import COOKIE as COOKIE
from holdfast.registry._sign_in import PAGE_HEADER as PAGE_HEADER
from holdfast.registry._sign_in import STATE_COOKIE as STATE_COOKIE
from holdfast.registry._sign_in import NoProvider as NoProvider
from holdfast.registry._sign_in import SignIn as SignIn
from holdfast.registry._storage import Broken as Broken
from holdfast.registry._storage import Conflict as Conflict
from holdfast.registry._storage import StoreError as StoreError
from holdfast.registry._storage import Unknown as Unknown
from holdfast.registry._storage import named as named
from holdfast.registry._training_view import MOST_ROWS as MOST_ROWS
from holdfast.registry._training_view import NO_TRAINING as NO_TRAINING
from holdfast.registry._training_view import column_data as column_data
from holdfast.registry._training_view import row_page as row_page
