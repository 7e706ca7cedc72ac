"""The choice of the looks at which a comparison of two records holds. Pure."""

from oracles.errors import ParameterError
from oracles.estimate.looks import EVERY_LOOK, ONE_LOOK, Looks, Name
from oracles.query.settings import Window


def looks_of(window: Window, pane: int, *, are_groups: bool, name: Name | None = None) -> Looks:
    """Return the looks with a name. By default two groups since the start hold always, and all others for a day.

    Raise a ParameterError if the comparison cannot hold at every look.
    """
    adds_up = are_groups and window.kind == "all"
    if name == "one":
        return ONE_LOOK
    if name == "day" or not (name or adds_up):
        # A window `all` has no step, and a final after each pane.
        return Looks.in_a_day(window.step or pane)
    # Windows of time have new people or new noise, so nothing adds up that could be watched.
    if not adds_up:
        raise ParameterError("looks=always is for two groups in windows of kind all; leave it out")
    return EVERY_LOOK
