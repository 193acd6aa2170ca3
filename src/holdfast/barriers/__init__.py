"""What cannot be done, shown by running it: limits that *Stability is stable* proves, in small.

Nothing here keeps a secret. The keys are drawn from a generator for simulation, no operation takes constant
time, and the toy keys are meant to be broken: for study, never for secrecy.
"""

from __future__ import annotations

from holdfast.lazy import lazy_names

# Where each public name lives. Names are imported on first use, so that marginals do not wait for number
# theory.
_HOME = {
    "Advantage": "_distinguish",
    "AffineInverter": "_buckets",
    "Bucket": "_buckets",
    "BucketInverter": "_buckets",
    "BucketPlan": "_bucket_plan",
    "Circuit": "_circuits",
    "ExactFingerprint": "_fingerprint",
    "FactoringSolver": "_solvers",
    "Fingerprint": "_fingerprint",
    "Gates": "_gates",
    "ImplicitPlan": "_implicit_plan",
    "ImplicitSample": "_implicit",
    "Inverter": "_inverter",
    "LearnedSigns": "_agnostic_marginals",
    "Marginals": "_marginals",
    "OneAtATime": "_inverter",
    "PrivateKey": "_goldwasser_micali",
    "PrivateSolver": "_solvers",
    "PublicKey": "_goldwasser_micali",
    "Rerandomised": "_rerandomised",
    "SatInverter": "_sat",
    "TableInverter": "_inverter",
    "ToeplitzHash": "_hashing",
    "advantage_bound": "_distinguish",
    "agnostic_bound": "_agnostic_marginals",
    "bucket_plan": "_bucket_plan",
    "distinguish": "_distinguish",
    "dp_rand_enc": "_rerandomised",
    "dp_rand_enc_rows": "_rerandomised",
    "droplet": "_droplets",
    "exact_fingerprint": "_fingerprint",
    "fingerprint": "_fingerprint",
    "generate_key": "_goldwasser_micali",
    "implicit_correlated_sample": "_implicit",
    "implicit_plan": "_implicit_plan",
    "marginals_from_learner": "_agnostic_marginals",
    "measure_advantage": "_distinguish",
    "one_way_marginals": "_marginals",
    "one_way_marginals_bound": "_lower_bounds",
    "one_way_marginals_rows": "_marginals",
    "overflow_probability": "_agnostic_marginals",
    "sign_one_way_marginals": "_marginals",
    "sign_one_way_marginals_bound": "_lower_bounds",
    "sign_one_way_marginals_rows": "_marginals",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)
