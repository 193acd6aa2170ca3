"""The one way of asking, for every caller: reserve, read in the clean room, record, release.

All names are for other packages of Holdfast. Users take ``Asker`` from :mod:`holdfast.guard`.
"""

from holdfast.asking._answering import INTERRUPTED as INTERRUPTED
from holdfast.asking._answering import AccountState as AccountState
from holdfast.asking._answering import Answering as Answering
from holdfast.asking._answering import Records as Records
from holdfast.asking._asking import Member as Member
from holdfast.asking._asking import answer_apart as answer_apart
from holdfast.asking._asking import answer_together as answer_together
from holdfast.asking._asking import read_interrupted as read_interrupted
from holdfast.asking._asking import with_sums as with_sums
from holdfast.asking._clean_room import Failed as Failed
from holdfast.asking._clean_room import may_be_alive as may_be_alive
from holdfast.asking._clean_room import read_protected as read_protected
from holdfast.asking._clean_room import reader as reader
from holdfast.asking._records import FAILURE as FAILURE
from holdfast.asking._records import LAYOUTS as LAYOUTS
from holdfast.asking._records import NOBODY as NOBODY
from holdfast.asking._records import ORDER as ORDER
from holdfast.asking._records import Asked as Asked
from holdfast.asking._records import Asker as Asker
from holdfast.asking._records import FixedPrice as FixedPrice
from holdfast.asking._records import Interrupted as Interrupted
from holdfast.asking._records import OtherTerms as OtherTerms
from holdfast.asking._records import Released as Released
from holdfast.asking._records import Settled as Settled
from holdfast.asking._records import allows_blocks as allows_blocks
from holdfast.asking._records import recorded_training_share as recorded_training_share
from holdfast.asking._session import Session as Session
