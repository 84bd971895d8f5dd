"""Variants: which there are, what they are called, and how people pick them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.ground.axes import Axes
from ipuenv.ground.builds import load_builds
from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile import Profile, load_profile
from ipuenv.ground.profile_errors import ProblemsError
from ipuenv.ground.variants import (
    MAX_ID_CHARS,
    MAX_VARIANTS,
    checked_axes,
    default_variant,
    matching,
    select,
    variants,
)

PROFILES = Path(__file__).parents[2] / "profiles"


@pytest.fixture(scope="module")
def shipped() -> Profile:
    return load_profile(PROFILES / "attention-compiler.toml", builds=load_builds(PROFILES / "builds.toml"))


def profile_with(**axes: Any) -> Profile:
    """A profile that nobody checked, as one that was stored."""
    return Profile.model_validate(
        {
            "schema": 1,
            "title": "T",
            "artifacts": "runs",
            "target": {"package": "p", "bin": "b"},
            "run": {"args": []},
            "axes": axes,
        }
    )


def axis(values: list[int | str], default: int | str, label: str) -> dict[str, Any]:
    return {"values": values, "default": default, "label": label}


THREADS = axis([1, 2], 2, "{}threads")
BATCH = axis([1, 4], 1, "batch{}")


def faults(**axes: Any) -> list[str]:
    with pytest.raises(ProblemsError) as caught:
        checked_axes(Axes.model_validate(axes))
    return [problem.text for problem in caught.value.problems]


# -- ids --------------------------------------------------------------------------------------------------------------


def test_the_shipped_profile_has_five_thread_counts_by_three_batches(shipped: Profile) -> None:
    found = variants(shipped)
    assert [dict(variant.values) for variant in found] == [
        {"threads": threads, "batch": batch, "build": "flamegraph"}
        for threads, batch in itertools.product([1, 2, 4, 8, 16], [1, 2, 4])
    ]
    assert [variant.id for variant in found[:4]] == ["1threads", "1threads-batch2", "1threads-batch4", "2threads"]
    assert found[-1].id == "16threads-batch4"


def test_a_default_is_left_out_of_the_id_except_on_the_first_axis() -> None:
    ids = [variant.id for variant in variants(profile_with(threads=THREADS, batch=BATCH))]
    assert ids == ["1threads", "1threads-batch4", "2threads", "2threads-batch4"]
    swapped = [variant.id for variant in variants(profile_with(batch=BATCH, threads=THREADS))]
    assert swapped == ["batch1-1threads", "batch1", "batch4-1threads", "batch4"]


def test_the_labels_are_the_parts_of_the_id() -> None:
    found = variants(profile_with(threads=THREADS, batch=BATCH))
    assert [variant.labels for variant in found] == [
        ("1threads",),
        ("1threads", "batch4"),
        ("2threads",),
        ("2threads", "batch4"),
    ]


def test_the_default_variant_has_every_default(shipped: Profile) -> None:
    variant = default_variant(shipped)
    assert variant.id == "16threads"
    assert variant in variants(shipped)
    assert dict(variant.values) == {"threads": 16, "batch": 1, "build": "flamegraph"}


def test_templates_get_every_axis_and_always_the_build() -> None:
    assert default_variant(profile_with(threads=THREADS)).texts == {"threads": "2", "build": "flamegraph"}
    built = profile_with(build=axis(["release", "dwarf"], "dwarf", "{}"))
    assert [variant.texts for variant in variants(built)] == [{"build": "release"}, {"build": "dwarf"}]
    assert [variant.build for variant in variants(built)] == ["release", "dwarf"]


def test_exclude_takes_away_all_cells_that_it_describes() -> None:
    profile = profile_with(threads=THREADS, batch=BATCH, exclude=[{"batch": 4, "threads": 1}])
    assert [variant.id for variant in variants(profile)] == ["1threads", "2threads", "2threads-batch4"]
    wider = profile_with(threads=THREADS, batch=BATCH, exclude=[{"batch": 4}])
    assert [variant.id for variant in variants(wider)] == ["1threads", "2threads"]


def test_include_adds_cells_completed_by_defaults_and_beats_exclude() -> None:
    profile = profile_with(
        threads=THREADS, batch=BATCH, exclude=[{"batch": 4}], include=[{"threads": 32}, {"threads": 1, "batch": 4}]
    )
    checked_axes(profile.axes)
    assert [variant.id for variant in variants(profile)] == ["1threads", "2threads", "32threads", "1threads-batch4"]


def test_two_variants_may_not_share_an_id() -> None:
    one, other = axis(["a", "a-b"], "a", "{}"), axis(["c", "b-c", "b"], "c", "{}")
    assert faults(x=one, y=other) == [
        "variant id 'a-b': two variants would have it: {'x': 'a', 'y': 'b'} and {'x': 'a-b', 'y': 'c'}. Change a label."
    ]


def test_ids_that_differ_only_in_case_are_one_on_some_file_systems() -> None:
    [fault] = faults(x=axis(["fast", "FAST"], "fast", "{}"))
    assert fault.startswith("variant id 'FAST': two variants would have it")


@pytest.mark.parametrize("label", ["-{}", ".{}", "_{}"])
def test_an_id_begins_with_a_letter_or_a_digit(label: str) -> None:
    [fault] = faults(x=axis([1, 2], 1, label))
    assert fault == (
        f"variant id '{label[0]}1' (and 1 more): wanted a letter or a digit at the start. "
        "Change the first axis's label."
    )


def test_an_id_is_no_longer_than_a_name_should_be() -> None:
    longest = "x" * (MAX_ID_CHARS - 1)
    axes = Axes.model_validate({"a": axis([1], 1, longest + "{}")})
    assert checked_axes(axes) is axes
    [fault] = faults(a=axis([1], 1, longest + "x{}"))
    assert fault.endswith("wanted at most 64 characters. Shorten a label.")


@pytest.mark.parametrize("value", ["README.md", "manifest.json"])
def test_an_id_is_no_file_of_a_run(value: str) -> None:
    [fault] = faults(a=axis([value], value, "{}"))
    assert fault == f"variant id '{value}': is the name of a file in a run's folder. Change a label."


def test_a_matrix_that_nobody_would_wait_for_is_refused() -> None:
    values: list[int | str] = list(range(MAX_VARIANTS + 1))
    assert faults(a=axis(values, 1, "{}")) == ["wanted at most 1000 variants, found 1001."]
    axes = Axes.model_validate({"a": axis(values[:-1], 1, "{}")})
    assert checked_axes(axes) is axes


@pytest.mark.parametrize("value", ["", "a\n", "\x00", 1.5, True, None, [1]])
def test_a_value_is_an_integer_or_a_text_that_fits_into_a_name(value: Any) -> None:
    with pytest.raises(ValueError, match="wanted a"):
        Axes.model_validate({"a": axis([value], value, "{}")})


LABELS = st.text(alphabet="ab-", min_size=1, max_size=3)
AXES = st.dictionaries(
    st.sampled_from(["x", "y", "z"]),
    st.lists(LABELS, min_size=1, max_size=3, unique=True).map(lambda values: axis([*values], values[0], "{}")),
    min_size=1,
)


@given(AXES)
def test_whatever_passes_the_check_has_one_id_per_cell(axes: dict[str, Any]) -> None:
    profile = profile_with(**axes)
    ids = [variant.id for variant in variants(profile)]
    begins_well = all(id_[0] != "-" for id_ in ids)
    if len(set(ids)) == len(ids) and begins_well:
        checked_axes(profile.axes)
        assert all(select(profile, id_).id == id_ for id_ in ids)
    else:
        with pytest.raises(ProblemsError, match="variant id"):
            checked_axes(profile.axes)


# -- picking ----------------------------------------------------------------------------------------------------------


def test_a_variant_is_selected_by_its_id(shipped: Profile) -> None:
    assert dict(select(shipped, "8threads-batch4").values) == {"threads": 8, "batch": 4, "build": "flamegraph"}


def test_an_unknown_id_names_the_nearest_and_the_rest(shipped: Profile) -> None:
    with pytest.raises(UsageError) as caught:
        select(shipped, "16thread")
    assert caught.value.what == 'the profile has no variant "16thread"'
    assert caught.value.expected.startswith("one of 1threads, 1threads-batch2, ")
    assert caught.value.hint == "did you mean '16threads'?"


def test_an_id_like_no_other_gets_a_way_out(shipped: Profile) -> None:
    with pytest.raises(UsageError) as caught:
        select(shipped, "zzz\n")
    assert caught.value.what == 'the profile has no variant "zzz\\n"'
    assert caught.value.hint == "give one of these ids, or none for the default variant"


def ids_of(profile: Profile, only: list[str], skip: list[str]) -> list[str]:
    return [variant.id for variant in matching(variants(profile), only, skip)]


@pytest.mark.parametrize(
    ("only", "skip", "ids"),
    [
        (["16threads"], [], ["16threads"]),
        (["16threads*"], [], ["16threads", "16threads-batch2", "16threads-batch4"]),
        (["16threads*"], ["*-batch2"], ["16threads", "16threads-batch4"]),
        (["2threads", "1threads"], [], ["1threads", "2threads"]),
        (["[12]threads-batch?"], [], ["1threads-batch2", "1threads-batch4", "2threads-batch2", "2threads-batch4"]),
        ([], ["*batch*", "?threads"], ["16threads"]),
    ],
)
def test_globs_over_ids_pick_variants_in_the_matrix_s_order(
    shipped: Profile, only: list[str], skip: list[str], ids: list[str]
) -> None:
    assert ids_of(shipped, only, skip) == ids


def test_without_globs_all_variants_are_picked(shipped: Profile) -> None:
    assert matching(variants(shipped)) == variants(shipped)


@pytest.mark.parametrize(("option", "only", "skip"), [("only", ["1*", "16thread"], []), ("skip", [], ["16thread"])])
def test_a_glob_that_matches_nothing_is_a_slip(shipped: Profile, option: str, only: list[str], skip: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        ids_of(shipped, only, skip)
    assert caught.value.what == f'--{option} "16thread" matches no variant'
    assert caught.value.expected.startswith("a glob over 1threads, ")
    assert caught.value.hint == "did you mean '16threads'?"


def test_a_glob_like_no_id_explains_globs(shipped: Profile) -> None:
    with pytest.raises(UsageError) as caught:
        ids_of(shipped, ["zzz"], [])
    assert caught.value.hint.startswith("globs are '*', '?' and '[..]'")


def test_skipping_everything_leaves_nothing_to_do(shipped: Profile) -> None:
    with pytest.raises(UsageError) as caught:
        ids_of(shipped, ["1threads*"], ["1threads*"])
    assert (caught.value.what, caught.value.hint) == ("no variant is left", "give fewer or narrower --skip globs")
    assert caught.value.expected.startswith("at least one of 1threads, ")
