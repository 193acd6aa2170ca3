"""Confidence intervals for a query fixed in advance, with the error probability in nats: nats = ln(1/δ).

Nothing underflows: the code guard asks for thousands of nats, where δ is too small for a float. Every
function says which δ it means: the whole error, both sides together. ``holdfast.guard`` makes sure that a
query is fixed in advance; this package does not check it.

* :func:`clopper_pearson`: shares, exactly
* :func:`kl`: shares and bounded means, from the mean alone
* :func:`hoeffding`: bounded means, with a width that does not depend on the data
* :func:`empirical_bernstein`: bounded means of small variance, from mean and variance
* :func:`e_mean`: bounded means of any variance, from mean and variance, with rates from other rows
  (:func:`e_mean_rates`)
* :func:`betting`: bounded means of small variance, from the rows in their order
* :func:`chain_share`: shares of a stationary Markov chain, from the norm of its operator
* :func:`chain_mean`: bounded means of such a chain (:func:`chain_mean_radius` predicts widths)
* :func:`quantile`: quantiles, any distribution
* :func:`from_tail`: any statistic with a tail, dependent rows included
* :func:`of_filtered_mean`: means under a filter (dependent rows: :func:`filtered_from_tail`)
* :func:`difference`, :func:`ratio`: intervals made of two
* :func:`gain_steps`: paired gains, better at all and by how many steps (:func:`sign_test`,
  :func:`certified_gain`; :func:`mean_interval` for the scores themselves)

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from holdfast.intervals._chain import chain_mean, chain_mean_radius, chain_share
from holdfast.intervals._gain import certified_gain, gain_steps, mean_interval, sign_test, units_needed
from holdfast.intervals._interval import Interval, difference, filtered_from_tail, from_tail, ratio
from holdfast.intervals._means import best_stake as best_stake
from holdfast.intervals._means import (
    betting,
    e_mean,
    e_mean_rates,
    empirical_bernstein,
    empirical_bernstein_radius,
    hoeffding,
)
from holdfast.intervals._shares import binomial_interval as binomial_interval
from holdfast.intervals._shares import binomial_log_tail as binomial_log_tail
from holdfast.intervals._shares import (
    clopper_pearson,
    kl,
    of_filtered_mean,
    quantile,
    quantile_ranks,
    quantile_ranks_from_tail,
)

__all__ = [
    "Interval",
    "betting",
    "certified_gain",
    "chain_mean",
    "chain_mean_radius",
    "chain_share",
    "clopper_pearson",
    "difference",
    "e_mean",
    "e_mean_rates",
    "empirical_bernstein",
    "empirical_bernstein_radius",
    "filtered_from_tail",
    "from_tail",
    "gain_steps",
    "hoeffding",
    "kl",
    "mean_interval",
    "of_filtered_mean",
    "quantile",
    "quantile_ranks",
    "quantile_ranks_from_tail",
    "ratio",
    "sign_test",
    "units_needed",
]
