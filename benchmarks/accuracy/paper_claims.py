"""What the papers claim, each with a name, its place, and where this repository answers it.

J is Jia and Gong (Calibrate), W is Wang et al. (consistent frequency oracles), and V is Sarve with RS+FD. An answer
is a table of the page, a test, or the reason why there is none. Figures stand in the tables alone, so they cannot
age here.
"""

from benchmarks.accuracy.study import Table

NOTE = """J is Jia and Gong 2019 (two documents), W is Wang et al. 2020 (two documents), V is Sarve with RS+FD. Figures
are in the tables and tests that an answer names.

Sarve's sections swap the names of two solutions: there *Spl* samples one attribute, and *Smp* splits epsilon. In its
introduction, in RS+FD and here it is the other way round. Three more facts: its Hadamard response has D' = D and h = 1,
which is GRR (the row `rsfd, grr`). Its abstract says Bloom filter, and its method is one-hot (`rsfd, sue_z`). Its text
gives Nursery 45,000 rows, and the data set has 12,960."""

ROWS = """
J1 | noise of a pure oracle is normal with variance n q (1-q)/(p-q)^2 | Fig. 4 | for many reports yes, see "Noise
    against the stated sigma"; counts are sums of two binomials, and 5434 is the deviation
J2 | calibrating is the best post-processing if the prior is right | Th. 2 | yes,
    `test_no_method_has_a_smaller_error_on_data_from_the_prior`
J3 | OUE-Zero and Calibrate err orders of magnitude less than OUE | Fig. 7 | at epsilon 1 and 2 yes, at 5 by less
    than one order: "Error by family and fit"
J4 | Calibrate errs less than OUE-Zero, and more so at a high epsilon | Fig. 7 | on Retail yes: "Relative
    improvement over OUE-Zero". Kosarak is measured if its file is there; for this page it was not
J5 | zeroing Calibrate's shares below T changes little | text of Fig. 7 | no, it costs: "Error by family and fit"
J6 | a higher F-score at all thresholds and epsilons | Fig. 5, 6, 8, 9 | from 0.1 to 4 T and epsilon 1 to 5 mostly,
    on Retail: "Heavy hitters at parts of T", and the claims above
J7 | a higher precision and a lower recall | Fig. 5, 6, 8, 9 | precision yes, and recall is lower in most
    cells: "Heavy hitters at parts of T"
J8 | more so at small thresholds | Fig. 5, 6, 8, 9 | no: the gain is largest at half of T and smaller below, at a
    tenth of T a loss at some epsilons: "Heavy hitters at parts of T"
J9 | OUE and OUE-Zero list the same values above T; below T Zero keeps one list | Fig. 5, 6 | both yes, see the two
    rows of the claims above; both follow from its definition (`zero` keeps all shares from T on)
J10 | the data follow a power law | Fig. 3 | of the four families it errs least on Retail; "A prior without a
    family" compares it there with a law of no form
J11 | a known family errs substantially less than an unknown one | the section on unknown families | it may err
    less, but where no family fits it errs many times more: "A prior without a family"
J12 | mean and variance are much faster than likelihood | text | both fits take a fraction of a second here (`python
    -m benchmarks.calibrate`)
J13 | Bloom RAPPOR is not pure, and its noise is not normal | text | it is left out for this reason
    ([methods](methods.md#sets-of-items))
J14 | memoised answers keep their noise | text | yes, and errors count it: "Clients that repeat their answers"
J15 | post-processing keeps privacy | text | a theorem; not tested, because no run can show it
J16 | Calibrate improves any pure oracle | text | in most cells: "Calibrate on other oracles"
W1 | variances of GRR and OUE; OUE is better if d - 2 > 3 e^epsilon | eq. 3, 6 | yes, by the closed forms, which
    `test_the_variance_is_the_closed_form` checks
W2 | OLH is best at g = e^epsilon + 1, and then as OUE; BLH is OLH for epsilon below ln 2 | 3.2 | yes, by the closed
    forms; here g is a power of two, so `olh` errs slightly more
W3 | HR halves the domain exactly, and decodes faster | 3.2 | by its definition; the speed is in
    [performance](performance.md)
W4 | subset selection errs less than OUE and OLH, and the gap closes as d grows | 3.2 | yes, by the closed forms
W5 | Norm is unbiased with variance (d-1)/d | Lemma 3 | yes, "Zipf: biases", and `test_norm_has_no_bias`
W6 | Base-Pos never errs more than Base for a value, with a positive bias | Lemma 1 | yes, "Zipf: all values" and
    "Zipf: biases"
W7 | Post-Pos is inconsistent over unions | 4.1 | by its definition,
    `test_post_pos_clips_the_answer_and_not_the_values`
W8 | biases of a normalised method sum to 0, and consistency raises rare values | Lemmas 2, 4 | yes, "Zipf: biases"
W9 | CLS is Norm-Sub, and MLE-Apx nearly | 4.2 | yes, `test_norm_sub_is_the_nearest_distribution`, and the two rows
    of each table
W10 | all methods keep the order of values | Table 1 | all but `norm_hyb`, which has a counterexample in
    `test_missing_promises_have_a_counterexample`
W11 | Power is 100 times slower, and takes hours on Kosarak | 5.2 | no, below a second for a million values:
    [calibrate](calibrate.md#how-exact-and-how-fast)
W12 | Power is positive, keeps the order, and does not sum to 1 | Table 1 | yes,
    `test_methods_keep_their_promises_under_a_prior`
W13 | all values: Base-Pos half of Base, Norm-Sub a tenth, Norm-Mul slow to fall, Norm-Sub and MLE-Apx best | Fig. 1
    | mostly: "Zipf: all values". Base-Cut is below both, and Norm-Mul rises with epsilon in units of sigma^2
W14 | sets of 10 to 90% are symmetric for normalised methods; at 90% Norm-Hyb is far the best, Base-Pos the worst |
    Fig. 2 | symmetric yes; Norm-Hyb is best of the ten, but near Norm-Sub and MLE-Apx: "Zipf: sets"
W15 | sets of 1 to 10%: Norm-Cut is better than Base-Cut from 2%, and Norm-Mul is bad | Fig. 3 | yes from 5% on:
    "Zipf: sets"
W16 | fixed sets: Norm-Sub, MLE-Apx and Norm-Hyb are best; Norm-Mul is as good on the 9; Power is poor | Fig. 4 |
    "Fixed sets: 370 areas, balanced" and the tables after it: the first mostly, the second no, the third on large
    sets only. The census file is not public, so the areas are Zipf
W17 | top k: Base, Base-Pos, Post-Pos and Norm are flat in k; Norm-Mul is far worse; cuts grow with k | Fig. 5 |
    yes, "Zipf: the most frequent values"
W18 | absolute error: Base-Cut is 30 to 50% better than Norm-Hyb, and falls as 1/sqrt n | Fig. 7 | better, but by
    less: the MAE columns of "Zipf: all values". n is not varied there, and sigma falls as 1/sqrt n
W19 | sets of 5%: Base-Pos is ten times worse, Base-Cut good at a small epsilon | Fig. 8 | Base-Pos yes; Base-Cut
    errs more than Norm-Sub at epsilon 1: "Zipf: sets"
W20 | top 10: Base and Base-Pos are best at a small epsilon, and Base-Cut is twice that below 1 | Fig. 9 | yes at k
    = 16: "Zipf: the most frequent values"
W21 | single values: take Base-Cut | 4.5 | mostly, see the claims above
W22 | sets: take Norm-Hyb | 4.5 | mostly, see the claims above
W23 | top values: take Norm, or Norm-Hyb if k is known | 4.5 | the first mostly, the second no, see the claims above
W24 | alpha = 2 serves better than 5% for the threshold T | 4.5 | mostly: `base_cut` (alpha 2) against `zero` (5%)
    in "Zipf: all values" at epsilon 1 and 2, and in all of "Zipf: sets"; `zero` errs less at epsilon 0.2
V1 | Adult, a small epsilon: HR as GRR, RAPPOR lower | Fig. 5 | HR is GRR; RAPPOR no: at ln 2 `rsfd, sue_z` errs
    more than `rsfd, grr` on Adult
V2 | RAPPOR in the adaptive choice never harms | text | yes, by the closed forms: "Closed forms", and the row of
    Sarve in the claims above
V3 | RAPPOR is better than their Smp, and not than their Spl | text | with the names swapped back yes on Adult at ln
    2: it errs less than `spl` and slightly more than `smp`. On MS-FIMU it beats both, so the second half fails.
    With the names as here both halves fail on Adult
V4 | Nursery, epsilon 0.693: Sarve and RS+FD are below their Spl | text | yes for both readings at ln 2, but only
    just below `smp`: "nursery: averaged MSE"
V5 | from 50,000 to 500,000 people HR gets worse, and RAPPOR does not | Fig. 8 to 11 | no: both names of the
    solutions have the same ratios with ten times the people, "Sarve's two candidates"
V6 | non-uniform, 50,000 people, 10 attributes: HR is better than RAPPOR | text | at ln 2 yes, from 4 on no:
    "Sarve's two candidates"
V7 | a large epsilon, many people: HR is better than their Smp below 5, then worse | text | yes with the names swapped
    back (`spl`, at 4 and 7); with the names as here (`smp`) HR is worse at both: "Sarve's two candidates"
V8 | little privacy: RAPPOR is below HR, Sarve and RS+FD | text | at epsilon 7 `rsfd, sue_z` errs least of the
    single candidates in the three tables; `rsfd, adaptive` errs less still on Adult
V9 | Sarve is on par with RS+FD, and better for some epsilon | text | yes, see the row of Sarve in the claims above
V10 | more attributes harm HR more than RAPPOR | text | at 4 and 7 yes, with 5, 10 and 20 attributes; at ln 2 they help
    it: "Sarve's two candidates"
"""
"""Rows of `name | claim | place | answer`. A row goes on in lines that begin with spaces."""


def table() -> Table:
    lines = ROWS.strip().replace("\n    ", " ").splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return Table("The claims of the papers", NOTE, ["id", "claim", "place", "answer"], rows)
