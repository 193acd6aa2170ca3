"""What cannot be done, shown by running it: limits that *Stability is stable* proves, on small examples.

Nothing here keeps a secret. The keys are drawn from a generator for simulation, no operation takes constant
time, and the toy keys are meant to be broken: for study, never for secrecy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast.barriers._buckets import AffineInverter, Bucket, BucketInverter, BucketPlan, bucket_plan
    from holdfast.barriers._circuits import Circuit, Gates, ToeplitzHash
    from holdfast.barriers._distinguish import Advantage, advantage_bound, distinguish, measure_advantage
    from holdfast.barriers._fingerprint import ExactFingerprint, Fingerprint, exact_fingerprint, fingerprint
    from holdfast.barriers._goldwasser_micali import (
        FactoringSolver,
        PrivateKey,
        PrivateSolver,
        PublicKey,
        Rerandomised,
        dp_rand_enc,
        dp_rand_enc_rows,
        generate_key,
    )
    from holdfast.barriers._implicit import (
        ImplicitPlan,
        ImplicitSample,
        implicit_correlated_sample,
        implicit_plan,
    )
    from holdfast.barriers._inverter import Inverter, OneAtATime, SatInverter, TableInverter
    from holdfast.barriers._lower_bounds import (
        LearnedSigns,
        agnostic_bound,
        marginals_from_learner,
        one_way_marginals_bound,
        overflow_probability,
        sign_one_way_marginals_bound,
    )
    from holdfast.barriers._marginals import (
        Marginals,
        droplet,
        one_way_marginals,
        one_way_marginals_rows,
        sign_one_way_marginals,
        sign_one_way_marginals_rows,
    )

# Where each public name lives. Names are imported on first use, so that marginals do not wait for number
# theory.
_HOME = {
    "Advantage": "_distinguish",
    "AffineInverter": "_buckets",
    "Bucket": "_buckets",
    "BucketInverter": "_buckets",
    "BucketPlan": "_buckets",
    "Circuit": "_circuits",
    "ExactFingerprint": "_fingerprint",
    "FactoringSolver": "_goldwasser_micali",
    "Fingerprint": "_fingerprint",
    "Gates": "_circuits",
    "ImplicitPlan": "_implicit",
    "ImplicitSample": "_implicit",
    "Inverter": "_inverter",
    "LearnedSigns": "_lower_bounds",
    "Marginals": "_marginals",
    "OneAtATime": "_inverter",
    "PrivateKey": "_goldwasser_micali",
    "PrivateSolver": "_goldwasser_micali",
    "PublicKey": "_goldwasser_micali",
    "Rerandomised": "_goldwasser_micali",
    "SatInverter": "_inverter",
    "TableInverter": "_inverter",
    "ToeplitzHash": "_circuits",
    "advantage_bound": "_distinguish",
    "agnostic_bound": "_lower_bounds",
    "bucket_plan": "_buckets",
    "distinguish": "_distinguish",
    "dp_rand_enc": "_goldwasser_micali",
    "dp_rand_enc_rows": "_goldwasser_micali",
    "droplet": "_marginals",
    "exact_fingerprint": "_fingerprint",
    "fingerprint": "_fingerprint",
    "generate_key": "_goldwasser_micali",
    "implicit_correlated_sample": "_implicit",
    "implicit_plan": "_implicit",
    "marginals_from_learner": "_lower_bounds",
    "measure_advantage": "_distinguish",
    "one_way_marginals": "_marginals",
    "one_way_marginals_bound": "_lower_bounds",
    "one_way_marginals_rows": "_marginals",
    "overflow_probability": "_lower_bounds",
    "sign_one_way_marginals": "_marginals",
    "sign_one_way_marginals_bound": "_lower_bounds",
    "sign_one_way_marginals_rows": "_marginals",
}

__all__ = [
    "Advantage",
    "AffineInverter",
    "Bucket",
    "BucketInverter",
    "BucketPlan",
    "Circuit",
    "ExactFingerprint",
    "FactoringSolver",
    "Fingerprint",
    "Gates",
    "ImplicitPlan",
    "ImplicitSample",
    "Inverter",
    "LearnedSigns",
    "Marginals",
    "OneAtATime",
    "PrivateKey",
    "PrivateSolver",
    "PublicKey",
    "Rerandomised",
    "SatInverter",
    "TableInverter",
    "ToeplitzHash",
    "advantage_bound",
    "agnostic_bound",
    "bucket_plan",
    "distinguish",
    "dp_rand_enc",
    "dp_rand_enc_rows",
    "droplet",
    "exact_fingerprint",
    "fingerprint",
    "generate_key",
    "implicit_correlated_sample",
    "implicit_plan",
    "marginals_from_learner",
    "measure_advantage",
    "one_way_marginals",
    "one_way_marginals_bound",
    "one_way_marginals_rows",
    "overflow_probability",
    "sign_one_way_marginals",
    "sign_one_way_marginals_bound",
    "sign_one_way_marginals_rows",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
